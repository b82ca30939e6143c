/* Events as they come: the interface's `updates` as server-sent events, one stream for all tabs that ask the same.
 * The tab that holds the lock reads and hands on; when it goes, or is hidden, the next goes on from the last cursor.
 * After any break the stream goes on where it was. Hidden tabs ask nothing.
 *
 *   const stop = stream({host, name, kinds}, (message) => …)
 *       {type: 'update', updates, more, cursor}      {type: 'gap', lost}
 *       {type: 'down', code, message, again_ms}      asked again by itself after again_ms; 0: not any more
 *       {type: 'up'}                                 it is read again after it was down
 *   parser((type, id, data) => …) → (text) => …      of server-sent events, fed in pieces of any size */
import { address, read as readJson, request } from './api.js';

const AGAIN_FIRST_MS = 1000;
const AGAIN_MOST_MS = 15000;
const FINAL = new Set([400, 401, 403, 404]);

export function parser(event) {
    let rest = '';
    let now = { type: 'message', id: '', data: [] };
    return (text) => {
        const lines = (rest + text).split('\n');
        rest = lines.pop();
        for (const raw of lines) {
            const line = raw.replace(/\r$/, '');
            if (!line) {
                if (now.data.length) event(now.type, now.id, now.data.join('\n'));
                now = { type: 'message', id: '', data: [] };
                continue;
            }
            const [field, value = ''] = line.split(/: ?(.*)/s);
            if (field === 'event') now.type = value;
            else if (field === 'id') now.id = value;
            else if (field === 'data') now.data.push(value);
        }
    };
}

const pause = (ms, signal) =>
    new Promise((resolve) => {
        const timer = setTimeout(resolve, ms);
        signal.addEventListener('abort', () => {
            clearTimeout(timer);
            resolve();
        });
    });

export function stream(params, on) {
    const name = 'procfleet ' + JSON.stringify(params);
    const channel = new BroadcastChannel(name);
    let cursor = '';
    let down = false;
    let control = null;

    function hear(message) {
        if (message.cursor) cursor = message.cursor;
        on(message);
    }

    function tell(message) {
        channel.postMessage(message);
        hear(message);
    }

    async function read(signal) {
        const init = { headers: { Accept: 'text/event-stream' }, signal };
        const reply = await request(address('updates', { ...params, cursor, wait: '25s' }), init);
        if (down) tell({ type: 'up' });
        down = false;
        let end = null;
        const feed = parser((type, id, data) => {
            const body = readJson(data);
            if (type === 'update') tell({ type, updates: body.updates, more: body.more, cursor: id || body.cursor });
            else if (type === 'gap') tell({ type, lost: body.lost });
            else if (type === 'end') end = body;
        });
        const text = new TextDecoder();
        const pieces = reply.body.getReader();
        for (;;) {
            const { done, value } = await pieces.read();
            if (done) return end;
            feed(text.decode(value, { stream: true }));
        }
    }

    async function lead(signal) {
        for (let wait = AGAIN_FIRST_MS; !signal.aborted;) {
            let e = null;
            const began = Date.now();
            try {
                e = await read(signal);
            } catch (thrown) {
                e = thrown;
            }
            if (signal.aborted) return;
            if (Date.now() - began > AGAIN_MOST_MS) wait = AGAIN_FIRST_MS;
            const final = FINAL.has(e?.status);
            if (e) {
                down = true;
                tell({ type: 'down', code: e.code || 'UNAVAILABLE', message: e.message, again_ms: final ? 0 : wait });
            }
            if (final) return;
            await pause(wait, signal);
            wait = Math.min(2 * wait, AGAIN_MOST_MS);
        }
    }

    function begin() {
        control?.abort();
        control = null;
        if (document.hidden) return;
        control = new AbortController();
        const { signal } = control;
        const locked = navigator.locks ? navigator.locks.request(name, { signal }, () => lead(signal)) : lead(signal);
        locked.catch((e) => {
            if (!signal.aborted) throw e;
        });
    }

    channel.onmessage = (event) => hear(event.data);
    document.addEventListener('visibilitychange', begin);
    begin();
    return () => {
        document.removeEventListener('visibilitychange', begin);
        control?.abort();
        channel.close();
    };
}
