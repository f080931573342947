-- The bounds of a script: a hook on its instructions, and what C functions may cost, which no hook interrupts.
-- `pace(kib)` of the host says after how many instructions it wants to be asked again; 0: the script has had its time.

local box, pace = ...
local sethook, gcinfo, pcall, error, select, type = debug.sethook, gcinfo, pcall, error, select, type

local MEMORY = "not enough memory" -- what Lua itself says
local TIME = "the script has used up its time; what it had written is undone"
local CHARGED = 4096 -- steps of C functions, about a microsecond to ten, after which the clock is looked at

local ended -- why this script is over, if it is
local interval, charged

-- Ends the script for good: from here on the hook fails every instruction, so that no pcall of the script goes on.
local function finish(why)
    ended = why
    sethook(box.hook, "", 1)
    error(why, 0)
end

local function check()
    if ended then
        finish(ended) -- again: the hook may have come before it was set
    end
    local ok, asked = pcall(pace, gcinfo())
    if not ok and type(asked) == "string" then
        error(asked, 0) -- the stack is full: the script's own error
    elseif not ok or asked == 0 then
        finish(TIME)
    elseif asked ~= interval then
        interval = asked
        sethook(box.hook, "", asked)
    end
end

box.hook = check

-- Before a C function that takes `steps`, each at most some nanoseconds.
function box.charge(steps)
    charged = charged + steps
    if charged >= CHARGED then
        charged = 0
        check()
    end
end

function box.begin()
    ended, interval, charged = nil, 0, 0
    check() -- sets the hook
end

-- To be called when the hook is off.
function box.why_ended()
    return ended
end

-- Where the stack is full the hook itself fails, with an error that a script could catch, to fill the stack again. So
-- each failure that is caught is a check, here, where there is more room; without room it fails further down.
local function caught(ok, ...)
    if not ok then
        if ... == MEMORY then
            finish(MEMORY)
        end
        check()
    end
    return ok, ...
end

box.MEMORY = MEMORY

function box.base.pcall(...)
    return caught(pcall(...))
end

-- By pcall: a handler of xpcall itself would run inside the hook that failed, where no hook interrupts it.
function box.base.xpcall(body, handler)
    local function outcome(ok, ...)
        if ok then
            return true, ...
        end
        caught(false, ...)
        return false, select(2, caught(pcall(handler, ...)))
    end
    return outcome(pcall(body))
end
