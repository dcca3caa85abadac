export type Cut = { name: string; body: string; inner: Cut[] }
export function splitProto(source: string): { prelude: string; types: Cut[] }
export function countTypes(types: Cut[]): number
export function makeLazyProto(
  path: string,
  lazyModule: string,
): Promise<{ name: string; text: string; module: string; count: number }>
