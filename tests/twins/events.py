"""The rule of docs/analyses/events.md in plain loops."""

import itertools
import math
from dataclasses import dataclass
from statistics import median

MAD = 1.4826
LEAST = 1.1754943508222875e-38  # the smallest normal float32


@dataclass
class Event:
    kind: str
    begin: float
    middle: float
    end: float
    before: float
    after: float
    initial: bool = False

    def size(self):
        return (self.before - self.after) * (1 if self.kind == "drop" else -1)


def level_before(x, t, m):
    return median(x[max(0, t - m) : t]) if t else x[0]


def level_after(x, t, m):
    return median(x[t : t + m])


def around(values, t, m):
    """Median of the m (odd) values around one; the end values are repeated."""
    n = len(values)
    return median(
        values[min(max(k, 0), n - 1)] for k in range(t - m // 2, t + m // 2 + 1)
    )


def median_error(m):
    """Standard deviation of the median of m frames with noise of 1."""
    return math.sqrt(math.pi / 2 / m)


def difference_error(n, t, m):
    before, after = max(min(t, m), 1), min(n - t, m)
    return math.hypot(median_error(before), median_error(after))


def scale(x, w):
    if len(x) < w:
        return abs(median(x))
    return max(abs(median(x[t : t + w])) for t in range(len(x) - w + 1))


def noise(x):
    return MAD / math.sqrt(2) * median(abs(b - a) for a, b in itertools.pairwise(x))


# ------------------------------------------------------------------------------- spikes


def leaves(values, bound):
    """After how many frames a series first is at or below a bound, interpolated; its
    last frame if it never is."""
    for k, value in enumerate(values):
        if value <= bound:
            if k == 0:
                return 0.0
            return k - (bound - value) / (values[k - 1] - value)
    return len(values) - 1.0


def spikes(x, w, depth, floor, significance):
    n, largest, tops = len(x), scale(x, w), []
    changes = [0.0] + [abs(x[t] - x[t - 1]) for t in range(1, n)]
    for t in range(n):
        after = level_after(x, t + 1, w) if t < n - 1 else x[t]
        level = max(level_before(x, t, w), after)
        least = max(
            depth * abs(level),
            floor * largest,
            significance * MAD / math.sqrt(2) * around(changes, t, 4 * w + 1),
        )
        highest = x[t] == max(x[max(0, t - w) : t + w + 1])
        if highest and x[t] > level and x[t] - level >= least:
            tops.append(t)
    result = []
    while tops:
        end = spike(x, tops[0], w).end
        same = [t for t in tops if t <= end and x[t] == x[tops[0]]]
        result.append(spike(x, same[(len(same) - 1) // 2], w))
        tops = [t for t in tops if t > same[-1]]
    return result


def spike(x, t, w):
    level = level_before(x, t, w)
    half = (level + x[t]) / 2
    begin, end = t - leaves(x[t::-1], half), t + leaves(x[t:], half)
    return Event("spike", begin, t, end, level, x[t])


def without_spikes(x, found, w):
    x = list(x)
    original = list(x)
    for event in found:
        t, n = event.middle, len(x)
        foot = event.before + 0.1 * (event.after - event.before)
        first = t - min(2 * w, math.ceil(leaves(original[t::-1], foot)))
        last = t + min(2 * w, math.ceil(leaves(original[t:], foot)))
        first, last = max(first, 0), min(last, n - 1)
        left, right = x[first], x[last]
        for k in range(first, last + 1):
            x[k] = left + (right - left) * (k - first) / max(last - first, 1)
    return x


# ------------------------------------------------------------------------------ changes


def change(kind, x, near, before, after):
    """A drop or rise between two levels, near a frame of a series."""
    part = [(before - value) / (before - after) for value in x]
    n = len(x)

    def crossing(k, bound):
        return k + (bound - part[k]) / (part[k + 1] - part[k])

    halves = [k for k in range(n - 1) if part[k] < 0.5 <= part[k + 1]]
    middle = float(near)
    if halves:
        middle = crossing(min(halves, key=lambda k: (abs(k - near), k)), 0.5)
    begin, end = 0.0, n - 1.0
    for k in range(int(middle), -1, -1):
        if part[k] <= 0.1:
            begin = crossing(k, 0.1) if k < n - 1 and part[k + 1] > 0.1 else float(k)
            break
    for k in range(math.ceil(middle), n):
        if part[k] >= 0.9:
            end = crossing(k - 1, 0.9) if k and part[k - 1] < 0.9 else float(k)
            break
    return Event(kind, begin, middle, end, before, after, begin < 1)


def rounded(d, x):
    """To 1e-12 of the largest value of a series."""
    unit = 1e-12 * max(map(abs, x))
    return [round(v / unit) * unit for v in d] if unit > 0 else d


def peaks(values):
    """Frames of local maxima, of equal ones the middle, with their prominence and the
    last lower frames on both sides of it."""
    result, n, t = [], len(values), 1
    while t < n - 1:
        if values[t - 1] < values[t]:
            last = t
            while last + 1 < n and values[last + 1] == values[t]:
                last += 1
            if last + 1 < n and values[last + 1] < values[t]:
                k = (t + last) // 2
                left = right = k
                while left > 0 and values[left - 1] <= values[k]:
                    left -= 1
                while right < n - 1 and values[right + 1] <= values[k]:
                    right += 1
                valley = max(min(values[left : k + 1]), min(values[k : right + 1]))
                result.append((k, values[k] - valley))
            t = last
        t += 1
    return result


def changes_by_largest(x, w, depth, significance):
    n, largest, sigma = len(x), scale(x, w), noise(x)
    smooth = [around(x, t, 5) for t in range(n)]
    result = []
    for m in (w, 2 * w, 4 * w):
        shorter = list(result)
        before = [level_before(x, t, m) for t in range(n)]
        after = [level_after(x, t, m) for t in range(n)]
        least = [
            max(depth * largest, significance * sigma * difference_error(n, t, m))
            for t in range(n)
        ]
        if max(least) == 0:
            continue
        for kind, sign in (("drop", 1), ("rise", -1)):
            d = [sign * (b - a) for b, a in zip(before, after, strict=True)]
            d = [0.0, *rounded(d, x), 0.0]
            events = []
            for k, prominence in peaks(d):
                t = k - 1
                if d[k] < least[t] or prominence < least[t] / 2:
                    continue
                bound = d[k] - prominence / 2
                first = t - leaves(d[k::-1], bound)
                last = t + leaves(d[k:], bound)
                # with moments at the padded frames -1 and n
                low, high = max(0, math.floor(first)), min(n - 1, math.ceil(last))
                if sign * (before[low] - after[high]) >= least[t]:
                    events.append(change(kind, smooth, t, before[low], after[high]))
            result += [
                event
                for event in merge(events, smooth)
                if all(event.end <= o.begin or o.end <= event.begin for o in shorter)
            ]
    return sorted(result, key=lambda event: event.middle)


def merge(events, smooth):
    result = []
    for event in sorted(events, key=lambda event: event.begin):
        if result and event.begin < result[-1].end:
            last = result.pop()
            deeper = event if event.size() > last.size() else last
            both = Event(event.kind, 0, 0, 0, last.before, event.after)
            if both.size() >= deeper.size():
                event = change(
                    event.kind, smooth, deeper.middle, last.before, event.after
                )
            else:
                event = deeper
        result.append(event)
    return result


def changes_by_local(x, w, depth, floor, significance, log):
    n, largest, result, m = len(x), scale(x, w), [], 5
    smooth = [around(x, t, 5) for t in range(n)]

    def least(before, after):
        if log:
            return -math.log(1 - min(depth, 0.999))
        return depth * max(abs(before), abs(after), floor * largest)

    second = [abs(x[t - 1] - 2 * x[t] + x[t + 1]) for t in range(1, n - 1)]
    second = [second[0], *second, second[-1]]
    while m <= max(5, n / 3):
        before = [level_before(x, t, m) for t in range(n)]
        after = [level_after(x, t, m) for t in range(n)]
        distance = [
            (min(t, m) + min(n - t, m)) / 2 - (0.5 if t == 0 else 0) for t in range(n)
        ]
        frames = 4 * max(m, w) + 1
        frames = min(frames, n - 1 + n % 2)
        error = [
            MAD
            / math.sqrt(6)
            * around(second, t, frames)
            * difference_error(n, t, m)
            * m
            / distance[t]
            for t in range(n)
        ]
        slow = [
            max(significance / 2 * error[t], 0.1 * least(before[t], after[t]) * m / n)
            for t in range(n)
        ]
        for kind, sign in (("drop", 1), ("rise", -1)):
            d = [sign * (before[t] - after[t]) * m / distance[t] for t in range(n)]
            d = rounded(d, x)
            speed = [max(d[t], slow[t], 5e-324) for t in range(n)]
            tops = []
            for k, prominence in log_peaks(speed):
                if prominence < math.log(1.25) or speed[k] < 2 * slow[k]:
                    continue
                valley = speed[k] * math.exp(-prominence)
                if speed[k] - valley >= 2 * significance * error[k]:
                    tops.append(k)
            for j, k in enumerate(tops):
                left = tops[j - 1] if j else 0
                right = tops[j + 1] if j + 1 < len(tops) else n - 1
                lowest = (min(d[left : k + 1]), min(d[k : right + 1]))
                if 1.25 * min(lowest) > d[k]:
                    continue
                foot = max(d[k] / 50, slow[k])
                first = max(
                    t for t in range(left, k + 1) if d[t] <= max(lowest[0], foot)
                )
                last = min(
                    t for t in range(k, right + 1) if d[t] <= max(lowest[1], foot)
                )
                b = x[0] if first == 0 else level_at(x, first, m)
                a = level_at(x, last, m)
                size = sign * (b - a)
                if size > 0 and size >= least(b, a) and size >= significance * error[k]:
                    combine(result, change(kind, smooth, k, b, a))
        m *= 2
    return sorted(result, key=lambda event: event.middle)


def log_peaks(speed):
    logs = [math.log(2.2250738585072014e-308)]
    logs += [math.log(max(v, 2.2250738585072014e-308)) for v in speed]
    logs.append(logs[0])
    return [(k - 1, prominence) for k, prominence in peaks(logs)]


def level_at(x, t, m):
    return median(x[max(0, t - m // 2) : t + m // 2 + 1])


def combine(events, event):
    """Add what a longer window shows."""
    over = [o for o in events if o.begin < event.end and event.begin < o.end]
    if len(over) > 1:
        return
    if over:
        if over[0].kind != event.kind or over[0].size() >= 0.9 * event.size():
            return
        events.remove(over[0])
    events.append(event)


# ----------------------------------------------------------------------------- plateaus


def plateaus(x, changes, w, depth, floor, significance, level):
    n, largest = len(x), scale(x, w)
    after = [level_after(x, t, w) for t in range(n)]
    values = after
    if level == "largest":
        error = noise(x) * math.sqrt(2) * median_error(w)
        least = max(depth * largest / 4, significance * error)
    else:
        least = -math.log(1 - min(depth, 0.999)) / 4
        bound = LEAST if level == "log" else max(0.1 * floor * largest, LEAST)
        values = [math.log(max(value, bound)) for value in after]
    result = []
    begins = [0.0, *(event.end for event in changes)]
    ends = [*(event.begin for event in changes), n - 1.0]
    for gap_begin, gap_end in zip(begins, ends, strict=True):
        first, last = math.ceil(gap_begin), int(gap_end) - w + 1
        windows = list(range(first, last + 1))
        for low, high in flat(windows, values, least, w):
            if high - low + w < 4 * w:
                continue
            begin = gap_begin if low == first else float(low)
            end = gap_end if high == last else high + w - 1.0
            middle = (begin + end) / 2
            result.append(Event("plateau", begin, middle, end, after[low], after[high]))
    return result


def flat(windows, values, least, w):
    """The longest stretch of windows, of equal ones the first, and those beside it."""
    if not windows:
        return []
    best, low = None, 0
    for high in range(len(windows)):
        while least > 0 and spread(values, windows[low : high + 1]) >= least:
            low += 1
        if best is None or high - low > best[1] - best[0]:
            best = (low, high)
    low, high = best
    return [
        *flat(windows[: max(0, low - w)], values, least, w),
        (windows[low], windows[high]),
        *flat(windows[high + w + 1 :], values, least, w),
    ]


def spread(values, windows):
    inside = [values[t] for t in windows]
    return max(inside) - min(inside)


def split(x, depth=0.1, window=0.02, floor=0.01, significance=5.0, level="largest"):
    """Spikes, the series without them, its drops and rises, and w."""
    w = max(5, round(window * len(x)))
    found = spikes(x, w, depth, floor, significance)
    rest = without_spikes(x, found, w)
    if level == "largest":
        changes = changes_by_largest(rest, w, depth, significance)
    elif level == "local":
        changes = changes_by_local(rest, w, depth, floor, significance, False)
    else:
        logs = [math.log(max(v, LEAST)) for v in rest]
        changes = changes_by_local(logs, w, depth, floor, significance, True)
        for event in changes:
            event.before, event.after = (
                0.0 if v < math.log(LEAST) + 1e-6 else math.exp(v)
                for v in (event.before, event.after)
            )
    return found, rest, changes, w


def events(x, depth=0.1, window=0.02, floor=0.01, significance=5.0, level="largest"):
    """All events by their middles."""
    if len(x) <= 5:
        return []
    found, rest, changes, w = split(x, depth, window, floor, significance, level)
    flat_parts = plateaus(rest, changes, w, depth, floor, significance, level)
    return sorted([*found, *changes, *flat_parts], key=lambda event: event.middle)


def at_step(moment, steps):
    """The step of a moment in frames, interpolated."""
    low = min(int(moment), len(steps) - 2)
    return steps[low] + (moment - low) * (steps[low + 1] - steps[low])
