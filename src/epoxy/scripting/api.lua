-- The table `redis`, replies on their way to the client, and the run of one script in an environment of its own.

local box, call, sha1, emit = ...
local type, error, pcall, select, unpack, tostring, tonumber = type, error, pcall, select, unpack, tostring, tonumber
local rawget, setmetatable, next, xpcall, setfenv = rawget, setmetatable, next, xpcall, setfenv
local sethook, getinfo, loadstring, format, gsub, floor =
    debug.sethook, debug.getinfo, loadstring, string.format, string.gsub, math.floor
local base, libraries, charge = box.base, box.libraries, box.charge

local SOURCE = "@user_script"
local MOST_ARGUMENTS = 1000 -- of one redis.call
local MOST_DEPTH = 32 -- of a reply; parsers of clients allow fewer

-- Kinds of replies, as replies.py has them.
local NULL, VALUE, STATUS, ERROR, LIST, LIST_END, TABLE, RAISED = 0, 1, 2, 3, 4, 5, 6, 7

local null = false -- what a null reply is: false, or nil after setresp(3)

-- The text of an error without a code gets one; a leading "-" is dropped.
local function fault(text)
    if text:byte(1) == 45 then
        text = text:sub(2)
        return { err = text:find(" ", 1, true) and text or "ERR " .. text }
    end
    return { err = "ERR " .. text }
end

-- Integers in full, other numbers with as many digits as it takes to read the same number again.
local function digits(value)
    if value == floor(value) and value >= -2 ^ 63 and value < 2 ^ 63 then
        return format("%d", value)
    end
    local short = format("%.15g", value)
    return tonumber(short) == value and short or format("%.17g", value)
end

-- Arguments of a command as strings. None if one is something else.
local function arguments_of(...)
    local arguments, size = { ... }, 0
    for i = 1, select("#", ...) do
        local value = arguments[i]
        if type(value) == "number" then
            value = digits(value)
            arguments[i] = value
        elseif type(value) ~= "string" then
            return nil
        end
        size = size + #value
    end
    charge(size)
    return arguments
end

local function requested(...)
    local count = select("#", ...)
    if count == 0 then
        return fault("Please specify at least one argument for this redis.call() call")
    elseif count > MOST_ARGUMENTS then
        return fault("Too many arguments for this redis.call() call: at most " .. MOST_ARGUMENTS)
    end
    local arguments = arguments_of(...)
    if not arguments then
        return fault("Lua redis lib command arguments must be strings or integers")
    end
    local ok, kind, value = pcall(call, unpack(arguments, 1, count))
    if not ok then
        error(type(kind) == "string" and kind or fault("internal error"), 0)
    elseif kind == NULL then
        return null
    elseif kind == STATUS then
        return { ok = value }
    elseif kind == ERROR then
        return { err = value }
    end
    return value
end

local redis = {
    pcall = requested,
    LOG_DEBUG = 0,
    LOG_VERBOSE = 1,
    LOG_NOTICE = 2,
    LOG_WARNING = 3,
    REPL_NONE = 0,
    REPL_AOF = 1,
    REPL_SLAVE = 2,
    REPL_REPLICA = 2,
    REPL_ALL = 3,
}

function redis.call(...)
    local reply = requested(...)
    if type(reply) == "table" and rawget(reply, "err") then
        error(reply, 0)
    end
    return reply
end

function redis.error_reply(...)
    local text = ...
    if select("#", ...) ~= 1 or type(text) ~= "string" then
        return fault("wrong number or type of arguments")
    end
    return fault(text:byte(1) == 45 and text or "-" .. text)
end

function redis.status_reply(...)
    local text = ...
    if select("#", ...) ~= 1 or type(text) ~= "string" then
        return fault("wrong number or type of arguments")
    end
    return { ok = text }
end

function redis.sha1hex(...)
    local text = ...
    if select("#", ...) ~= 1 or (type(text) ~= "string" and type(text) ~= "number") then
        error(fault("wrong number of arguments"), 0)
    end
    text = tostring(text)
    charge(#text)
    return (sha1(text))
end

-- Checked and dropped: a script writes no lines into the log of a node.
function redis.log(level, ...)
    if type(level) ~= "number" or select("#", ...) == 0 then
        error(fault("redis.log() requires two arguments or more."), 0)
    elseif level < 0 or level > 3 then
        error(fault("Invalid log level."), 0)
    end
end

function redis.setresp(...)
    local version = ...
    if select("#", ...) ~= 1 then
        error(fault("redis.setresp() requires one argument."), 0)
    elseif version ~= 2 and version ~= 3 then
        error(fault("RESP version must be 2 or 3."), 0)
    end
    null = nil
    if version == 2 then
        null = false
    end
end

function redis.replicate_commands()
    return true
end

function redis.set_repl() end

function redis.breakpoint()
    return false
end

libraries.redis = redis

-- Replies

local put

local function put_list(list, depth)
    if depth >= MOST_DEPTH then
        error(fault("reply nested too deeply: at most " .. MOST_DEPTH .. " levels"), 0)
    end
    emit(LIST)
    local i = 1
    while rawget(list, i) ~= nil do
        put(rawget(list, i), depth + 1)
        i = i + 1
    end
    emit(LIST_END)
end

-- The kind and the value of what is no list; nil for a list.
local function plain(value)
    local kind = type(value)
    if kind == "string" or kind == "number" then
        return VALUE, value
    elseif value == true then
        return VALUE, 1
    elseif kind ~= "table" then
        return NULL
    end
    local text = rawget(value, "err")
    if type(text) == "string" then
        return ERROR, text
    end
    text = rawget(value, "ok")
    if type(text) == "string" then
        return STATUS, text
    end
    text = rawget(value, "double")
    if type(text) == "number" then
        return VALUE, digits(text)
    end
end

function put(value, depth)
    local kind, result = plain(value)
    if kind then
        emit(kind, result)
    else
        put_list(value, depth)
    end
end

-- Environments. A script sees empty tables, through which it reads what stands behind them: it can neither change that
-- nor get hold of it, and what it puts into the empty tables by force (rawset) is gone with them after its run.

local function readonly()
    error("Attempt to modify a readonly table", 2)
end

local function window(content)
    return { __index = content, __newindex = readonly, __metatable = false }
end

local windows = {}
for name, content in next, libraries do
    windows[name] = window(content)
end

local names -- of the run: KEYS, ARGV, _G, and the libraries it has used

setmetatable(base, {
    __index = function(_, name)
        local behind = windows[name]
        if not behind then
            error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
        end
        names[name] = setmetatable({}, behind)
        return names[name]
    end,
})
local behind_names = { __index = base }

local function environment(keys, arguments)
    names = setmetatable({ KEYS = keys, ARGV = arguments }, behind_names)
    names._G = setmetatable({}, window(names))
    return names._G
end

-- Methods of strings, ("x"):rep(3), are those of scripts, too.
local of_strings = getmetatable("")
of_strings.__index, of_strings.__metatable = libraries.string, false

-- Running

local line -- where the error was, in the script

local function locate(failure)
    for level = 2, 8 do
        local frame = getinfo(level, "Sl")
        if frame and frame.source == SOURCE then
            line = frame.currentline
            break
        end
    end
    return failure
end

local function failed(failure)
    if type(failure) == "string" then -- C names the function that called it: ours
        failure = gsub(failure, "^libraries:%d+: ", line and "user_script:" .. line .. ": " or "")
    end
    if type(failure) ~= "table" then
        return RAISED, "ERR " .. tostring(failure), line
    end
    local text = rawget(failure, "err")
    return RAISED, type(text) == "string" and text or "ERR unknown error", line
end

-- Also what is put together for the client takes of the script's time.
local function finished(ok, value)
    local kind, result, at
    if ok then
        kind, result = plain(value)
        if not kind then
            ok, value = pcall(put_list, value, 0)
            kind = TABLE
        end
    end
    if not ok then
        kind, result, at = failed(value)
    end
    sethook()
    return kind, result, at
end

function box.run(chunk, seed, keys, arguments)
    null, line = false, nil
    box.seed(seed)
    setfenv(chunk, environment(keys, arguments))
    box.begin()
    return finished(xpcall(chunk, locate))
end

-- A compiled script, or nil and what is wrong with it.
function box.compile(source)
    return loadstring(source, SOURCE)
end

box.disarm = sethook
