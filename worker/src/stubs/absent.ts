// Stands for an optional package that is deliberately not installed; Baileys does without it.
export {}
