-- deadline_text: an end as events carry it; '' is none (9e15 and later mean "until lifted").
local function deadline_text(ends)
  return ends < 9e15 and string.format('%.0f', ends) or ''
end
