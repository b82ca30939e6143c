/* The state of the page, kept in the address's fragment: a link shows the same to whoever may see it, and stands in
 * no server's log. `#/h/web-0001?t=-15m&live=2s` ⇄ {view: 'h', args: ['web-0001'], t: '-15m', live: '2s', …}
 *
 *   parse(fragment) → state           never fails: what it cannot read is left out, and named in `unread`
 *   format(state) → fragment          keys in a fixed order, defaults left out
 *   range(state, now) → {from, to, last}      ms; `last` (ms) when it is relative, else null
 *   rangeParams(state) → {last} or {since, until}       for the interface
 *   get() → state                     set(patch, {replace}) changes keys (null: default) and tells who listens
 *   link(patch) → '#/…'               address of get() with a patch
 *   on(fn) → stop                     fn(state, changed: Set of keys) after each change, also by the browser's buttons
 *   setting(name, value)              kept in the browser: procfleet.NAME; without a value it reads */
import { compact, fromCompact, spanMs } from './time.js';

export const DEFAULTS = {
    t: '-15m',
    live: '',
    host: '',
    name: '',
    by: 'cpu',
    group: 'image',
    mode: 'area',
    sel: '',
    colour: '',
    kinds: '',
    sort: '',
    idle: '',
    at: '',
    a: '',
    b: '',
    q: '',
};
const VIEWS = new Set(['', 'h', 'top', 'p', 'timeline', 'events', 'losses', 'diff', 'rules']);
const OWN = ['host', 'name', 't', 'live'];

export function parseTime(t) {
    if (t && t[0] === '-') {
        const last = spanMs(t.slice(1));
        return last > 0 ? { last } : null;
    }
    const [a, b] = (t || '').split('..');
    const [from, to] = [fromCompact(a), fromCompact(b)];
    return to > from ? { from, to } : null;
}

export const formatTime = (from, to) => compact(from) + '..' + compact(Math.max(to, from + 0.001));

const decode = (s) => {
    try {
        return decodeURIComponent(s.replace(/\+/g, ' '));
    } catch {
        return '';
    }
};
/* Readable in a link: globs, paths of images and times stay as they are. */
const encode = (s) =>
    encodeURIComponent(s)
        .replace(/%2A/gi, '*')
        .replace(/%2C/gi, ',')
        .replace(/%3A/gi, ':')
        .replace(/%2F/gi, '/')
        .replace(/%20/g, '+');

export function parse(fragment) {
    /* A ticket is taken out of the address (api.js) and is no view. */
    const address = (fragment || '').replace(/^#?\/?(ticket=[0-9a-f]*$)?/, '');
    const [path, query = ''] = address.split(/\?(.*)/s);
    const [view, ...args] = path.split('/').map(decode);
    const known = VIEWS.has(view);
    const state = { view: known ? view : '', args: known ? args.filter(Boolean) : [], ...DEFAULTS, unread: [] };
    if (!known) state.unread.push(view);
    for (const pair of query.split('&')) {
        const [key, value = ''] = pair.split(/=(.*)/s);
        if (Object.hasOwn(DEFAULTS, key)) state[key] = decode(value);
    }
    if (!parseTime(state.t)) {
        state.unread.push('t=' + state.t);
        state.t = DEFAULTS.t;
    }
    if (state.live && !(spanMs(state.live) >= 1000 && state.t[0] === '-')) state.live = '';
    return state;
}

export function format(state) {
    const pairs = Object.keys(DEFAULTS)
        .filter((key) => state[key] && state[key] !== DEFAULTS[key])
        .map((key) => key + '=' + encode(state[key]));
    return (
        '#/' +
        [state.view, ...state.args].map((s) => encode(s).replace(/\//g, '%2F')).join('/') +
        (pairs.length ? '?' + pairs.join('&') : '')
    );
}

export function range(state, now) {
    const t = parseTime(state.t);
    return t.last ? { from: now - t.last, to: now, last: t.last } : { ...t, last: null };
}

export function rangeParams(state) {
    const t = parseTime(state.t);
    const ns = (ms) => compact(ms).replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)/, '$1-$2-$3T$4:$5:');
    return t.last ? { last: state.t.slice(1) } : { since: ns(t.from), until: ns(t.to) };
}

const listeners = new Set();
let current = parse(typeof location === 'object' ? location.hash : '');

export const get = () => current;

function become(next) {
    const changed = new Set(['view', ...Object.keys(DEFAULTS)].filter((key) => next[key] !== current[key]));
    if (next.args.join('\n') !== current.args.join('\n')) changed.add('args');
    current = next;
    if (changed.size) for (const fn of [...listeners]) fn(current, changed);
}

const patched = (patch) => {
    const next = { ...current, ...patch };
    for (const key of Object.keys(DEFAULTS))
        if (next[key] === null || next[key] === undefined) next[key] = DEFAULTS[key];
    return next;
};

export function set(patch, { replace = false } = {}) {
    const address = format(patched(patch));
    if (address !== location.hash) history[replace ? 'replaceState' : 'pushState'](null, '', address);
    become(parse(address));
}

/* A link that names a view keeps range and filters, and nothing else of the one that is shown. */
export function link(patch) {
    const kept = () => ({ ...DEFAULTS, ...Object.fromEntries(OWN.map((key) => [key, current[key]])), args: [] });
    return format({ ...(patch.view === undefined ? current : kept()), ...patch });
}

export function on(fn) {
    listeners.add(fn);
    return () => listeners.delete(fn);
}

export function listen() {
    addEventListener('popstate', () => become(parse(location.hash)));
    addEventListener('hashchange', () => become(parse(location.hash)));
}

export function setting(name, value) {
    const key = 'procfleet.' + name;
    try {
        if (value === undefined) return localStorage.getItem(key);
        if (value === null) localStorage.removeItem(key);
        else localStorage.setItem(key, value);
    } catch {
        /* storage is off: the setting holds for this page only */
    }
    return value;
}
