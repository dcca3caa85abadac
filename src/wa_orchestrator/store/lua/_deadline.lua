-- Shared by scripts that tell an end.

-- told_until: an end as events tell it; '' is none (9e15 and later stand for "until somebody says otherwise").
local function told_until(ends)
  return ends < 9e15 and string.format('%.0f', ends) or ''
end
