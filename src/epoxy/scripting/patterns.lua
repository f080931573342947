-- Patterns are matched by C, with backtracking: refuse what may take long. `steps` bounds it soundly: from each place of
-- a subject of n bytes every repetition may end in n + 1 places, and between two of them at most the whole pattern is read.

local box = ...
local error, find, byte, sub = error, string.find, string.byte, string.sub

local MOST_STEPS = 2 ^ 22 -- a few milliseconds
local MOST_BYTES = 1024 -- of a pattern
local MOST_REPEATS = 32 -- each is a level of recursion in C
local ESCAPE, SET, SET_END, NOT = byte("%[]^", 1, 4)

-- Where the set that begins at `at` ends: the place after it. Its first character is a member even if it is "]".
local function after_set(pattern, at)
    at = at + 1
    if byte(pattern, at) == NOT then
        at = at + 1
    end
    repeat
        local char = byte(pattern, at)
        at = at + (char == ESCAPE and 2 or 1)
    until char == nil or byte(pattern, at) == SET_END
    return at + 1
end

-- How many parts of a pattern may match more than one length, or read the subject again: repetitions, %b and %1.
local function repeats(pattern)
    local count, at, length = 0, 1, #pattern
    if byte(pattern, 1) == NOT then
        at = 2
    end
    while at <= length do
        local char = byte(pattern, at)
        if char == ESCAPE and find(pattern, "^[b%d]", at + 1) then
            count, at = count + 1, at + (sub(pattern, at + 1, at + 1) == "b" and 4 or 2)
        else
            if char == ESCAPE then
                at = at + 2
            elseif char == SET then
                at = after_set(pattern, at)
            else
                at = at + 1
            end
            if find(pattern, "^[*+?-]", at) then
                count, at = count + 1, at + 1
            end
        end
    end
    return count
end

local function steps(subject, pattern)
    if #pattern > MOST_BYTES then
        return MOST_STEPS + 1
    end
    local count = repeats(pattern)
    local starts = byte(pattern, 1) == NOT and 0 or 1
    return count <= MOST_REPEATS and (#pattern + 1) * (#subject + 1) ^ (count + starts) or MOST_STEPS + 1
end

-- Fails unless a match is surely short; charges for it.
function box.pattern_cost(subject, pattern)
    local cost = steps(subject, pattern)
    if cost > MOST_STEPS then
        error("pattern too complex for a subject of " .. #subject .. " bytes", 3)
    end
    box.charge(cost)
    return cost
end
