-- string, table and math as scripts see them: what runs long inside C is charged or refused.

local box = ...
local charge, pattern_cost, base = box.charge, box.pattern_cost, box.base
local error, type, tostring, next, select, rawget = error, type, tostring, next, select, rawget
local raw = { string = string, table = table, math = math }

local MOST_BYTES = 2 ^ 21 -- of a string made by one call; a value has half as much at most
local BLOCK = 1024 -- repetitions, which C adds one by one, are made of blocks
local MOST_SORTED = 512 -- elements: an unlucky order takes their square
local MOST_SEARCHED = 2 ^ 26 -- bytes compared by a plain search that goes badly

-- The argument as a string, or the error that C would give in the script's line.
local function text(value, position, name)
    local kind = type(value)
    if kind == "string" then
        return value
    elseif kind == "number" then
        return tostring(value)
    end
    error("bad argument #" .. position .. " to '" .. name .. "' (string expected, got " .. kind .. ")", 3)
end

local function list(value, name)
    if type(value) ~= "table" then
        error("bad argument #1 to '" .. name .. "' (table expected, got " .. type(value) .. ")", 3)
    end
    charge(#value)
    return value
end

local strings = {
    byte = raw.string.byte,
    char = raw.string.char,
    len = raw.string.len,
}

for _, name in next, { "lower", "upper", "reverse" } do
    local run = raw.string[name]
    strings[name] = function(value)
        value = text(value, 1, name)
        charge(#value)
        return (run(value))
    end
end

local sub, rep, format = raw.string.sub, raw.string.rep, raw.string.format

function strings.sub(value, ...)
    value = text(value, 1, "sub")
    charge(#value / 8)
    return (sub(value, ...))
end

function strings.rep(value, count)
    value = text(value, 1, "rep")
    local times = base.tonumber(count)
    if not times then
        error("bad argument #2 to 'rep' (number expected, got " .. type(count) .. ")", 2)
    end
    local size = #value * times
    if size > MOST_BYTES then
        error("resulting string too large", 2)
    elseif not (size > 0) then
        return ""
    end
    times = times - times % 1
    charge(size / 8)
    return rep(rep(value, BLOCK), (times - times % BLOCK) / BLOCK) .. rep(value, times % BLOCK)
end

function strings.format(shape, ...)
    charge(#text(shape, 1, "format"))
    for i = 1, select("#", ...) do
        local value = select(i, ...)
        if type(value) == "string" then
            charge(#value)
        end
    end
    return (format(shape, ...))
end

local find, match, gmatch, gsub = raw.string.find, raw.string.match, raw.string.gmatch, raw.string.gsub

function strings.find(subject, pattern, init, plain)
    subject, pattern = text(subject, 1, "find"), text(pattern, 2, "find")
    if plain or not find(pattern, "[%^%$%*%+%?%.%(%[%%%-]") then
        local compared = #subject * #pattern
        if compared > MOST_SEARCHED then
            error("search too long: " .. #pattern .. " bytes in " .. #subject, 2)
        end
        charge(#subject / 8 + compared / 16)
    else
        pattern_cost(subject, pattern)
    end
    return find(subject, pattern, init, plain)
end

function strings.match(subject, pattern, init)
    subject, pattern = text(subject, 1, "match"), text(pattern, 2, "match")
    pattern_cost(subject, pattern)
    return match(subject, pattern, init)
end

function strings.gmatch(subject, pattern)
    subject, pattern = text(subject, 1, "gmatch"), text(pattern, 2, "gmatch")
    local cost = pattern_cost(subject, pattern)
    local following = gmatch(subject, pattern)
    return function()
        charge(cost)
        return following()
    end
end

-- A replacement that is looked up or called goes through a function in Lua, whose instructions are counted.
function strings.gsub(subject, pattern, replacement, limit)
    subject, pattern = text(subject, 1, "gsub"), text(pattern, 2, "gsub")
    pattern_cost(subject, pattern)
    charge(#subject * 16)
    local kind, given = type(replacement), replacement
    if kind == "table" then
        replacement = function(found)
            return given[found]
        end
    elseif kind == "function" then
        replacement = function(...)
            return (given(...))
        end
    end
    return gsub(subject, pattern, replacement, limit)
end

local tables = { maxn = raw.table.maxn, getn = raw.table.getn }
local concat, insert, remove, sort = raw.table.concat, raw.table.insert, raw.table.remove, raw.table.sort

function tables.concat(values, ...)
    return (concat(list(values, "concat"), ...))
end

function tables.insert(values, ...)
    insert(list(values, "insert"), ...)
end

function tables.remove(values, ...)
    return remove(list(values, "remove"), ...)
end

function tables.sort(values, before)
    if #list(values, "sort") > MOST_SORTED then
        error("too many elements to sort: at most " .. MOST_SORTED, 2)
    end
    charge(#values * #values)
    sort(values, before)
end

function tables.foreach(values, visit)
    for key, value in next, values do
        local answer = visit(key, value)
        if answer ~= nil then
            return answer
        end
    end
end

function tables.foreachi(values, visit)
    for i = 1, #values do
        local answer = visit(i, rawget(values, i))
        if answer ~= nil then
            return answer
        end
    end
end

local maths = {}
for name, value in next, raw.math do
    maths[name] = value
end

-- The numbers of a run follow from its seed. Seeded at the first use: few scripts draw any.
local seed
function maths.random(...)
    if seed then
        raw.math.randomseed(seed)
        seed = nil
    end
    return raw.math.random(...)
end

function maths.randomseed(value)
    raw.math.randomseed(value)
    seed = nil
end

function box.seed(value)
    seed = value
end

box.libraries.string, box.libraries.table, box.libraries.math = strings, tables, maths
