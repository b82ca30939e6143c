/* Times and spans. Inside the page a moment is milliseconds since 1970 in UTC with a fraction (exact to 0.25 µs);
 * nanoseconds of the interface are strings and stay so until they are shown.
 *
 *   spanMs('15m') → 900000, NaN when it is none      spanText(900000) → '15m'   (exact: goes into links)
 *   short(ms) → '2 m 5 s', '20 ms', '61 d'           for people
 *   compact(ms) → '20261123T140000Z'                 fromCompact(text) → ms | NaN       (links; fraction of up to 9
 *       digits)
 *   rfc3339(ms) → '2026-11-23T14:00:00.123456Z'      parse(text, now) → ms | NaN        (what people type, also
 *       '14:03', '-5m')
 *   clock(ms, unit) → '14:03:12'                     as fine as unit, the step in ms
 *   full(ms | ns string) → '2026-11-23 14:03:12.123456789'
 *   ticks(from, to, n) → [{ms, text, major}]         at most n, on round UTC times; major: a new day, or the first
 *   nsMs('1795…') → ms                               RANGES: the ranges that are offered */

const UNITS = { ms: 1, s: 1000, m: 60e3, h: 3600e3, d: 86400e3, w: 7 * 86400e3 };
export const RANGES = ['1m', '5m', '15m', '1h', '3h', '6h', '12h', '24h', '2d', '7d', '30d'];

export function spanMs(text) {
    const m = /^(\d+(?:\.\d+)?)(ms|s|m|h|d|w)$/.exec(text || '');
    return m ? Number(m[1]) * UNITS[m[2]] : NaN;
}

export function spanText(ms) {
    const unit = ['d', 'h', 'm', 's'].find((u) => ms % UNITS[u] === 0 && ms >= UNITS[u] && (u !== 'd' || ms > UNITS.d));
    return unit ? ms / UNITS[unit] + unit : Math.round(ms) + 'ms';
}

export function short(ms) {
    const a = Math.abs(ms);
    if (a < 0.001) return a === 0 ? '0' : Math.round(ms * 1e6) + ' ns';
    if (a < 1) return Math.round(ms * 1e3) + ' µs';
    if (a < 1000) return (a < 10 ? ms.toFixed(1) : Math.round(ms)) + ' ms';
    if (a < 60e3) return (a < 10e3 ? (ms / 1e3).toFixed(1) : Math.round(ms / 1e3)) + ' s';
    const pair = (big, small, b, s) => {
        let n = Math.floor(a / big);
        let rest = Math.round((a - n * big) / small);
        if (rest * small >= big) [n, rest] = [n + 1, 0];
        return (ms < 0 ? '−' : '') + n + ' ' + b + (rest && n < 10 ? ' ' + rest + ' ' + s : '');
    };
    if (a < 3600e3) return pair(60e3, 1e3, 'min', 's');
    if (a < 86400e3) return pair(3600e3, 60e3, 'h', 'min');
    return pair(86400e3, 3600e3, 'd', 'h');
}

const pad = (n, w = 2) => String(n).padStart(w, '0');

function parts(ms) {
    const d = new Date(Math.floor(ms));
    return {
        d,
        day: `${d.getUTCFullYear()}-${pad(d.getUTCMonth() + 1)}-${pad(d.getUTCDate())}`,
        time: `${pad(d.getUTCHours())}:${pad(d.getUTCMinutes())}:${pad(d.getUTCSeconds())}`,
        us: Math.round((ms - Math.floor(ms / 1000) * 1000) * 1000),
    };
}

/* Microseconds below the second, as '.123456' without zeros at the end; '' for none. */
function fraction(ms) {
    const us = parts(ms).us;
    return us > 0 && us < 1e6 ? ('.' + pad(us, 6)).replace(/0+$/, '') : '';
}

export function rfc3339(ms) {
    const p = parts(ms);
    return `${p.day}T${p.time}${fraction(ms)}Z`;
}

export const compact = (ms) => rfc3339(ms).replace(/[-:]/g, '');

export function fromCompact(text) {
    const m = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(\.\d{1,9})?Z$/.exec(text || '');
    if (!m) return NaN;
    const at = Date.UTC(m[1], m[2] - 1, m[3], m[4], m[5], m[6]);
    /* There is no 13th month and no 75th minute. */
    return compact(at).slice(0, 15) === text.slice(0, 15) ? at + (m[7] ? Number('0' + m[7]) * 1000 : 0) : NaN;
}

export function parse(text, now) {
    const s = (text || '').trim();
    const span = spanMs(s.replace(/^-\s*/, ''));
    if (s === 'now') return now;
    if (!Number.isNaN(span)) return now - span;
    const m = /^(?:(\d{4})-(\d\d)-(\d\d)(?:[T ]|$))?(?:(\d\d?):(\d\d)(?::(\d\d)(\.\d{1,9})?)?)?\s*Z?$/.exec(s);
    if (!m || (!m[1] && !m[4])) return NaN;
    const today = new Date(now);
    const [y, mo, d] = m[1]
        ? [Number(m[1]), m[2] - 1, Number(m[3])]
        : [today.getUTCFullYear(), today.getUTCMonth(), today.getUTCDate()];
    const [h, mi, sec] = [Number(m[4] || 0), Number(m[5] || 0), Number(m[6] || 0)];
    const bad = mo < 0 || mo > 11 || h > 23 || mi > 59 || sec > 59;
    if (bad || new Date(Date.UTC(y, mo, d)).getUTCDate() !== d) return NaN;
    const at = Date.UTC(y, mo, d, h, mi, sec) + (m[7] ? Number('0' + m[7]) * 1000 : 0);
    return !m[1] && at > now ? at - UNITS.d : at;
}

export function clock(ms, unit) {
    if (Number.isNaN(ms)) return '–';
    const p = parts(ms);
    if (unit >= UNITS.d) return p.day.slice(5);
    if (unit >= UNITS.m) return p.time.slice(0, 5);
    if (unit >= UNITS.s) return p.time;
    return p.time + '.' + (unit >= 1 ? pad(Math.floor(p.us / 1000), 3) : pad(p.us % 1e6, 6));
}

export function nsMs(ns) {
    if (ns === null || ns === undefined || ns === '') return NaN;
    /* Without its last three digits it fits a number whole. */
    return (Number(String(ns).slice(0, -3)) || 0) / 1000;
}

export function full(at) {
    if (typeof at === 'string') {
        const ms = Number(BigInt(at) / 1000000n);
        const p = parts(ms);
        return `${p.day} ${p.time}.${pad(BigInt(at) % 1000000000n, 9)}`;
    }
    if (Number.isNaN(at)) return '–';
    const p = parts(at);
    return `${p.day} ${p.time}${fraction(at)}`;
}

const STEPS = [
    0.001,
    0.002,
    0.005,
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1,
    2,
    5,
    10,
    20,
    50,
    100,
    200,
    500,
    1e3,
    2e3,
    5e3,
    10e3,
    15e3,
    30e3,
    60e3,
    120e3,
    300e3,
    600e3,
    900e3,
    1800e3,
    3600e3,
    2 * 3600e3,
    3 * 3600e3,
    6 * 3600e3,
    12 * 3600e3,
    86400e3,
    2 * 86400e3,
    7 * 86400e3,
    14 * 86400e3,
    28 * 86400e3,
];

export function ticks(from, to, n) {
    const step = STEPS.find((s) => (to - from) / s <= n) || STEPS[STEPS.length - 1];
    const out = [];
    for (let i = Math.ceil(from / step); i * step <= to && out.length <= n; i++) {
        const ms = i * step;
        const day = ms % UNITS.d === 0;
        out.push({ ms, major: day, text: day ? parts(ms).day.slice(5) : clock(ms, step) });
    }
    return out;
}
