/* Questions to the collector: `/api/v1/NAME` of this origin, with the session's key.
 *
 *   await start()                  takes the ticket out of the address, or finds out whether the session still holds
 *   session                        {state: 'in' | 'out', who, why}; who: the answer of `info`
 *   await ask('top', {by: 'cpu_time', host: ''}, signal) → the answer; parameters that are empty, null or undefined
 *       are left out
 *   ahead('hosts', params)         asks now what the first view will ask: with `info`, not after it
 *   await askAll('hosts', params, signal) → the answer with the lists of all its pages joined
 *   logout()                       now() → the collector's time, ms       on(fn) → stop: after each change of session
 *       or link
 *   link                           {up: bool, since: ms}: whether the last question was answered at all
 *   Refusal                        what ask throws: .code, .message, .status, .details; an abort throws AbortError
 *
 *   address(name, params), request(where, init) → Response      for streams (stream.js)
 *   read(json) → value             with what cannot be seen in its texts made visible
 *
 * At most four questions are under way at once, as the session allows; the rest wait here. 429 and 503 with
 * Retry-After are asked again, three times. Answers are JSON as docs/console.md has it; `received_ms` is added, and
 * from its coverage `at_most` and `lost`, [{from, to}] in ms, to its series and its density. */
import { setting } from './store.js';
import { nsMs } from './time.js';

const AT_ONCE = 4;
const TRIES = 3;
const BASE = '/api/v1/';

export const session = { state: 'out', who: null, why: '' };
export const link = { up: true, since: 0 };
let offset_ms = 0;
let running = 0;
const waiting = [];
const listeners = new Set();

export class Refusal extends Error {
    constructor(code, message, status = 0, details = '') {
        super(message);
        Object.assign(this, { code, status, details });
    }
}

export const now = () => Date.now() + offset_ms;

export function on(fn) {
    listeners.add(fn);
    return () => listeners.delete(fn);
}

const tell = () => {
    for (const fn of [...listeners]) fn();
};

function linkIs(up) {
    if (link.up !== up) {
        Object.assign(link, { up, since: Date.now() });
        tell();
    }
}

function sessionIs(state, why = '') {
    if (session.state !== state || session.why !== why) {
        Object.assign(session, { state, why });
        tell();
    }
}

function turn(signal) {
    if (running < AT_ONCE) {
        running++;
        return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
        /* Who listens on a part of the view's signal is kept as long as that: for hours. */
        const gone = () => {
            const i = waiting.indexOf(place);
            if (i >= 0) {
                waiting.splice(i, 1);
                reject(signal.reason);
            }
        };
        const place = {
            resolve() {
                signal?.removeEventListener('abort', gone);
                resolve();
            },
        };
        waiting.push(place);
        signal?.addEventListener('abort', gone);
    });
}

function turnEnds() {
    if (waiting.length) waiting.shift().resolve();
    else running--;
}

const pause = (ms, signal) =>
    new Promise((resolve, reject) => {
        const gone = () => {
            clearTimeout(timer);
            reject(signal.reason);
        };
        const timer = setTimeout(() => {
            signal?.removeEventListener('abort', gone);
            resolve();
        }, ms);
        signal?.addEventListener('abort', gone);
    });

export function headers() {
    const key = setting('key');
    return { Accept: 'application/json', ...(key ? { 'X-Procfleet-Key': key } : {}) };
}

export function address(name, params) {
    const query = Object.entries(params || {})
        .filter(([, v]) => v !== '' && v !== null && v !== undefined && v !== false)
        .map(([k, v]) => k + '=' + encodeURIComponent(Array.isArray(v) ? v.join(',') : v === true ? '1' : v))
        .join('&');
    return BASE + name + (query ? '?' + query : '');
}

/* The reply of a question that was not refused. */
export async function request(where, init) {
    let reply;
    try {
        const all = { ...headers(), ...init.headers };
        reply = await fetch(where, { cache: 'no-store', credentials: 'same-origin', ...init, headers: all });
    } catch (e) {
        if (init.signal?.aborted) throw e;
        linkIs(false);
        throw new Refusal('UNREACHABLE', 'the console does not answer; is procfleet console still running?');
    }
    linkIs(reply.status !== 502 && reply.status !== 503);
    if (reply.ok) return reply;
    const body = await reply.json().catch(() => null);
    const message = body?.message || `the console answered ${reply.status}`;
    const refusal = new Refusal(body?.code || 'UNAVAILABLE', message, reply.status, body?.details || '');
    refusal.retry_ms = Number(reply.headers.get('Retry-After')) * 1000 || 0;
    if (reply.status === 401) sessionIs('out', refusal.message);
    throw refusal;
}

/* Names come from hosts: what would not be seen, or would turn the text around it, becomes its number. Plain answers
 * pay one look. Not tab and line ends: they are space. */
const UNSEEN =
    /(?![\t\n\r])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Variation_Selector}\u115f\u1160\u2800\u3164\uffa0\u034f]/gu;
const ESCAPED = /\\u/;
const number = (c) => '\\u' + c.codePointAt(0).toString(16).padStart(4, '0');
const seen = (key, v) => (typeof v === 'string' ? v.replace(UNSEEN, number) : v);

export function read(text) {
    return JSON.parse(text, text.search(UNSEEN) >= 0 || ESCAPED.test(text) ? seen : undefined);
}

async function once(where, init) {
    const reply = await request(where, init);
    try {
        return reply.status === 204 ? {} : read(await reply.text());
    } catch (e) {
        if (init.signal?.aborted) throw e;
        throw new Refusal('CORRUPT', 'the answer broke off or cannot be read', reply.status);
    }
}

/* Figures of metrics become numbers: those that can pass 2^53 come as texts, and a plot needs no more digits. */
export function prepared(answer) {
    const lists = Object.values(answer.rows?.values ?? {});
    for (const g of answer.series?.groups ?? []) {
        for (const column of Object.values(g.columns)) lists.push(...Object.values(column));
    }
    for (const list of lists) {
        for (let i = 0; i < list.length; i++) if (typeof list[i] === 'string') list[i] = Number(list[i]);
    }
    const { coverage } = answer;
    const spans = (coverage?.hosts ?? []).flatMap((c) => c.spans ?? []);
    const lost = coverage && spans.map((s) => ({ from: nsMs(s.first_ns), to: nsMs(s.last_ns) }));
    for (const one of [answer.series, answer.lifetimes?.density]) {
        if (one) Object.assign(one, { at_most: Boolean(coverage?.at_most), lost });
    }
    answer.received_ms = Date.now();
    return answer;
}

const early = new Map();

export function ahead(name, params) {
    if (!setting('key') || location.hash.includes('ticket=')) return;
    const answer = ask(name, params);
    answer.catch(() => {}); /* who asks hears of it */
    early.set(address(name, params), answer);
}

export async function ask(name, params, signal) {
    const where = address(name, params);
    const there = early.get(where);
    early.delete(where);
    if (there) return there;
    await turn(signal);
    try {
        for (let tries = 1; ; tries++) {
            try {
                const answer = await once(where, { signal });
                return prepared(answer);
            } catch (e) {
                if (!(e.retry_ms > 0) || tries >= TRIES) throw e;
                await pause(Math.min(e.retry_ms, 5000), signal);
            }
        }
    } finally {
        turnEnds();
    }
}

export async function askAll(name, params, signal) {
    const first = await ask(name, params, signal);
    for (let page = first; page.more && page.cursor;) {
        page = await ask(name, { ...params, cursor: page.cursor }, signal);
        for (const key of ['hosts', 'events', 'infos', 'notes']) {
            if (Array.isArray(page[key]) && Array.isArray(first[key])) first[key].push(...page[key]);
        }
        first.partial ||= page.partial;
        Object.assign(first, { more: page.more, cursor: page.cursor });
    }
    return first;
}

async function login(ticket) {
    const made = await once(BASE + 'session', {
        method: 'POST',
        body: JSON.stringify({ ticket }),
        headers: { 'Content-Type': 'application/json' },
    });
    setting('key', made.key);
}

export async function start() {
    const ticket = /[#&]ticket=([0-9a-f]{32})\b/.exec(location.hash);
    if (ticket) {
        history.replaceState(null, '', location.pathname + '#/');
        try {
            await login(ticket[1]);
        } catch (e) {
            setting('key', null);
            session.why = e.message;
            tell();
            return;
        }
    }
    try {
        session.who = await ask('info');
        offset_ms = nsMs(session.who.now_ns) - Date.now();
        sessionIs('in');
    } catch (e) {
        if (e.status !== 401) throw e;
    }
}

export async function logout() {
    try {
        await once(BASE + 'session', { method: 'DELETE' });
    } finally {
        setting('key', null);
        sessionIs('out', 'You have logged out.');
    }
}
