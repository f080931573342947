-- The library `cjson`: encode, decode and null, with the rules and messages of lua-cjson. Written in Lua, so that its
-- instructions are counted like those of the script.

local box = ...
local type, tostring, tonumber, error, next, pcall, rawget = type, tostring, tonumber, error, next, pcall, rawget
local byte, char, find, format, gsub, sub = string.byte, string.char, string.find, string.format, string.gsub, string.sub
local concat, floor, huge = table.concat, math.floor, math.huge
local charge = box.charge

local MOST_DEPTH = 1000
local DENSE = 10 -- an array of up to so many may have any holes; a longer one must be half full

local null = newproxy() -- a userdata without a metatable: nothing can be done with it
local library = { null = null }

-- Encoding

local escapes = { ['"'] = '\\"', ["\\"] = "\\\\", ["/"] = "\\/", ["\b"] = "\\b", ["\t"] = "\\t", ["\n"] = "\\n" }
escapes["\f"], escapes["\r"] = "\\f", "\\r"

local function escape(found)
    return escapes[found] or format("\\u%04x", byte(found))
end

local function quoted(text)
    charge(#text)
    if find(text, '[%c"\\/%z]') then
        text = gsub(text, '[%c"\\/%z]', escape)
    end
    return '"' .. text .. '"'
end

local function digits(value)
    if value ~= value or value == huge or value == -huge then
        error("Cannot serialise number: must not be NaN or Inf", 0)
    end
    return format("%.14g", value)
end

-- The length of an array, or nil for an object; an empty table is an object.
local function array_length(value)
    local most, count = 0, 0
    for key in next, value do
        if type(key) ~= "number" or key < 1 or key ~= floor(key) then
            return nil
        end
        most, count = key > most and key or most, count + 1
    end
    if most > DENSE and most > 2 * count then
        error("Cannot serialise table: excessively sparse array", 0)
    end
    return count > 0 and most or nil
end

local encode_value

local function encode_table(value, out, depth)
    if depth > MOST_DEPTH then
        error("Cannot serialise, excessive depth (" .. depth .. ")", 0)
    end
    local length = array_length(value)
    if length then
        for i = 1, length do
            out[#out + 1] = i == 1 and "[" or ","
            encode_value(rawget(value, i), out, depth)
        end
        out[#out + 1] = "]"
        return
    end
    local before = "{"
    for key, each in next, value do
        if type(key) == "number" then
            key = digits(key)
        elseif type(key) ~= "string" then
            error("Cannot serialise " .. type(key) .. ": table key must be a number or string", 0)
        end
        out[#out + 1] = before .. quoted(key) .. ":"
        before = ","
        encode_value(each, out, depth)
    end
    out[#out + 1] = before == "{" and "{}" or "}"
end

function encode_value(value, out, depth)
    local kind = type(value)
    if kind == "string" then
        out[#out + 1] = quoted(value)
    elseif kind == "number" then
        out[#out + 1] = digits(value)
    elseif kind == "boolean" then
        out[#out + 1] = tostring(value)
    elseif kind == "nil" or value == null then
        out[#out + 1] = "null"
    elseif kind == "table" then
        encode_table(value, out, depth + 1)
    else
        error("Cannot serialise " .. kind .. ": type not supported", 0)
    end
end

-- Decoding

local whole = { ["true"] = true, ["false"] = false, ["null"] = null }
local unescapes = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }
unescapes['"'], unescapes["\\"], unescapes["/"] = '"', "\\", "/"

local function expected(what, text, at)
    local found = sub(text, at, at)
    local token = "invalid token"
    if at > #text then
        token = "T_END"
    elseif found == '"' then
        token = "T_STRING"
    elseif find(found, "[%[%]{}:,]") then
        token = ({ ["["] = "T_ARR_BEGIN", ["]"] = "T_ARR_END", ["{"] = "T_OBJ_BEGIN", ["}"] = "T_OBJ_END", [":"] = "T_COLON" })[found]
            or "T_COMMA"
    elseif find(found, "%d") then
        token = "T_NUMBER"
    end
    error("Expected " .. what .. " but found " .. token .. " at character " .. at, 0)
end

local function utf8(code)
    if code < 0x80 then
        return char(code)
    elseif code < 0x800 then
        return char(0xC0 + floor(code / 64), 0x80 + code % 64)
    elseif code < 0x10000 then
        return char(0xE0 + floor(code / 4096), 0x80 + floor(code / 64) % 64, 0x80 + code % 64)
    end
    return char(0xF0 + floor(code / 262144), 0x80 + floor(code / 4096) % 64, 0x80 + floor(code / 64) % 64, 0x80 + code % 64)
end

-- The character that the escape at `at` (its letter) stands for, and the place after it. Two \u may be one character.
local function unescape(text, at)
    local letter = sub(text, at, at)
    if letter ~= "u" then
        return unescapes[letter] or expected("value", text, #text + 1), at + 1
    end
    local code = find(text, "^%x%x%x%x", at + 1) and tonumber(sub(text, at + 1, at + 4), 16)
    if not code or (code >= 0xDC00 and code < 0xE000) then
        error("Expected value but found invalid unicode escape code at character " .. at - 1, 0)
    end
    if code < 0xD800 or code >= 0xE000 then
        return utf8(code), at + 5
    end
    local low = find(text, "^\\u[dD][c-fC-F]%x%x", at + 5) and tonumber(sub(text, at + 7, at + 10), 16)
    if not low then
        error("Expected value but found invalid unicode escape code at character " .. at - 1, 0)
    end
    return utf8(0x10000 + (code - 0xD800) * 1024 + low - 0xDC00), at + 11
end

-- The string whose opening quote is at `at`, and the place after it.
local function decode_string(text, at)
    local parts, from = {}, at + 1
    while true do
        local stop = find(text, '["\\%c%z]', from)
        local found = stop and sub(text, stop, stop)
        charge((stop or #text) - from)
        if found == '"' then
            parts[#parts + 1] = sub(text, from, stop - 1)
            return concat(parts), stop + 1
        elseif found ~= "\\" then
            error("Expected value but found unexpected end of string at character " .. (stop or #text + 1), 0)
        end
        parts[#parts + 1] = sub(text, from, stop - 1)
        parts[#parts + 1], from = unescape(text, stop + 1)
    end
end

local function after_space(text, at)
    return find(text, "[^ \t\r\n]", at) or #text + 1
end

local decode_value

local function decode_array(text, at, depth)
    local result, count = {}, 0
    at = after_space(text, at + 1)
    if sub(text, at, at) == "]" then
        return result, at + 1
    end
    while true do
        count = count + 1
        result[count], at = decode_value(text, at, depth)
        at = after_space(text, at)
        local found = sub(text, at, at)
        if found == "]" then
            return result, at + 1
        elseif found ~= "," then
            expected("comma or array end", text, at)
        end
        at = after_space(text, at + 1)
    end
end

local function decode_object(text, at, depth)
    local result = {}
    at = after_space(text, at + 1)
    if sub(text, at, at) == "}" then
        return result, at + 1
    end
    while true do
        if sub(text, at, at) ~= '"' then
            expected("object key string", text, at)
        end
        local key
        key, at = decode_string(text, at)
        at = after_space(text, at)
        if sub(text, at, at) ~= ":" then
            expected("colon", text, at)
        end
        result[key], at = decode_value(text, after_space(text, at + 1), depth)
        at = after_space(text, at)
        local found = sub(text, at, at)
        if found == "}" then
            return result, at + 1
        elseif found ~= "," then
            expected("comma or object end", text, at)
        end
        at = after_space(text, at + 1)
    end
end

function decode_value(text, at, depth)
    local found = sub(text, at, at)
    if found == '"' then
        return decode_string(text, at)
    elseif found == "{" or found == "[" then
        if depth >= MOST_DEPTH then
            error("Found too many nested data structures (" .. depth + 1 .. ")", 0)
        end
        return (found == "{" and decode_object or decode_array)(text, at, depth + 1)
    end
    local _, stop = find(text, "^[%w+.-]+", at)
    local word = stop and sub(text, at, stop)
    if word and whole[word] ~= nil then
        return whole[word], stop + 1
    end
    local number = word and find(word, "^-?%d") and not find(word, "^-?0%d") and tonumber(word)
    if not number then
        expected("value", text, at)
    end
    return number, stop + 1
end

-- As C functions fail: in the line of the script that called.
local function called(run, ...)
    local ok, result = pcall(run, ...)
    if not ok then
        error(result, type(result) == "string" and 3 or 0)
    end
    return result
end

local function encoded(value)
    local out = {}
    encode_value(value, out, 0)
    return concat(out)
end

local function decoded(text)
    local value, at = decode_value(text, after_space(text, 1), 0)
    at = after_space(text, at)
    if at <= #text then
        expected("the end", text, at)
    end
    return value
end

function library.encode(value)
    return (called(encoded, value))
end

function library.decode(text)
    if type(text) == "number" then
        text = tostring(text)
    elseif type(text) ~= "string" then
        error("bad argument #1 to 'decode' (string expected, got " .. type(text) .. ")", 2)
    end
    return (called(decoded, text))
end

box.libraries.cjson = library
