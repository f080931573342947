-- The library `bit` (LuaBitOp): numbers as 32 bits. `bits(name, a, b)` of the host does the sums.

local box, bits = ...
local type, tonumber, error, select, next = type, tonumber, error, select, next
local format, sub = string.format, string.sub
local library = {}

local function number(value, position, name)
    local given = tonumber(value)
    if not given or given ~= given or given - given ~= 0 then
        error("bad argument #" .. position .. " to '" .. name .. "' (number expected, got " .. type(value) .. ")", 3)
    end
    return given
end

for _, name in next, { "tobit", "bnot", "bswap" } do
    library[name] = function(value)
        return (bits(name, number(value, 1, name), 0))
    end
end

for _, name in next, { "band", "bor", "bxor" } do
    library[name] = function(...)
        local result = bits("tobit", number((...), 1, name), 0)
        for i = 2, select("#", ...) do
            result = bits(name, result, number((select(i, ...)), i, name))
        end
        return result
    end
end

for _, name in next, { "lshift", "rshift", "arshift", "rol", "ror" } do
    library[name] = function(value, count)
        return (bits(name, number(value, 1, name), number(count, 2, name)))
    end
end

-- The lowest digits; a negative count: in capitals.
function library.tohex(value, digits)
    digits = digits == nil and 8 or bits("tobit", number(digits, 2, "tohex"), 0)
    local count = digits < 0 and -digits or digits
    local text = format(digits < 0 and "%08X" or "%08x", bits("tobit", number(value, 1, "tohex"), 0) % 2 ^ 32)
    return sub(text, 9 - (count < 8 and count or 8))
end

box.libraries.bit = library
