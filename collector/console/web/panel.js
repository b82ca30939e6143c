/* A part of a view that asks one question and shows its answer, with every state that can have: loading, empty,
 * partial, stale, failed. Its place on the page keeps its size throughout.
 *
 *   const p = panel(root, {title: 'CPU', tools: [nodes], height: '12rem'})
 *   p.load((signal) => app.ask('series', {…}, signal), (answer) => {draw into p.body}, {empty: (answer) => null |
 *       block})
 *       resolves when drawn, failed or given up for a newer load; block: {text, offers: [{text, run}]}
 *       said: notes (told(answer)) that another panel of the view has said already
 *   p.node, p.head, p.body      p.title(text)      p.note(text): right of the title      p.again(): the last load
 *       once more
 *   p.close()                   gives up what is under way
 *   retry.run                   what `Try again` does: the frame asks for the whole view once more
 *   busy()                      how many panels wait for an answer                        offer(text, run) → a button
 *
 * Loading is told after 150 ms only. An answer that fails keeps what was drawn, greyed, with its age. */
import { el, put, text } from './el.js';
import { clock, short } from './time.js';

const LOADING_AFTER_MS = 150;
let waiting = 0;

/* Without the last, which the footer has. */
export const told = (answer) =>
    (answer?.notes ?? [])
        .filter((note, i, all) => i < all.length - 1 || !/^coverage /.test(note))
        .map(sentence)
        .join(' ');

export const busy = () => waiting;
export const retry = { run: null };
export const offer = (label, run) => el('button.offer', { type: 'button', onclick: run }, label);

/* Codes' sentences begin small and end without a stop, for the command line. */
export const sentence = (s) => s.charAt(0).toUpperCase() + s.slice(1) + (/[.!?]$/.test(s) ? '' : '.');

export function block(kind, sentence, offers = []) {
    return el(
        `div.block.${kind}`,
        { role: kind === 'failed' ? 'alert' : null },
        el('p', null, sentence),
        offers.length
            ? el(
                  'p',
                  null,
                  offers.map((o) => offer(o.text, o.run)),
              )
            : null,
    );
}

let number = 0;

export function panel(parent, { title = '', tools = [], height = '', kind = '' } = {}) {
    const id = 'panel' + ++number;
    const heading = el('h2', { id }, title);
    const note = el('span.note');
    const head = el('div.head', null, heading, note, el('span.tools', null, tools));
    const bar = el('div.bar', { hidden: true });
    const body = el('div.body');
    const cover = el('div.cover', { hidden: true });
    const node = el('section.panel', { 'aria-labelledby': id }, head, bar, el('div.stage', null, body, cover));
    if (kind) node.classList.add(kind);
    body.style.minHeight = height;
    parent.append(node);
    let running = null;
    let drawn_ms = 0;
    let last = null;

    const state = (name) => {
        node.dataset.state = name;
    };
    const say = (content) => {
        cover.hidden = !content;
        put(cover, content);
    };
    const tell = (content, kindOfBar) => {
        bar.hidden = !content;
        bar.className = 'bar ' + (kindOfBar || '');
        put(bar, content);
    };

    function answered(answer, draw, { empty, said }) {
        const none = empty?.(answer);
        say(none ? block('empty', none.text, none.offers) : null);
        const bar = answer.partial && told(answer) !== said;
        tell(bar ? [el('b', null, 'Partial. '), told(answer)] : null, 'partial');
        body.classList.toggle('away', Boolean(none));
        if (!none) draw(answer);
        drawn_ms = Date.now();
        state(none ? 'empty' : answer.partial ? 'partial' : 'ready');
    }

    function failed(e) {
        const again = { text: 'Try again', run: () => (retry.run ? retry.run() : self.again()) };
        if (drawn_ms) {
            say(null);
            state('stale');
            tell(
                [
                    el('b', null, 'Stale. '),
                    sentence(e.message),
                    ` What is shown is of ${clock(drawn_ms, 1000)} UTC, `,
                    age(),
                    ' old. ',
                    offer(again.text, again.run),
                ],
                'stale',
            );
        } else {
            state('failed');
            body.classList.add('away');
            say(block('failed', sentence(e.message), [again]));
        }
    }

    const age = () => el('span.age', { dataset: { since: drawn_ms } }, short(Date.now() - drawn_ms));

    const self = {
        node,
        head,
        body,
        title: (value) => text(heading, value),
        note: (...content) => put(note, content),
        again: () => last && self.load(...last),
        close: () => running?.abort(),
        async load(ask, draw, options = {}) {
            last = [ask, draw, options];
            running?.abort();
            const control = new AbortController();
            running = control;
            node.setAttribute('aria-busy', 'true');
            const timer = setTimeout(() => {
                node.classList.add('loading');
                if (!drawn_ms) say(el('p.wait', null, 'Loading…'));
            }, LOADING_AFTER_MS);
            waiting++;
            try {
                const answer = await ask(control.signal);
                if (running === control) answered(answer, draw, options);
                return answer;
            } catch (e) {
                if (control.signal.aborted || running !== control) return null;
                if (!e.code) throw e;
                failed(e);
                return null;
            } finally {
                waiting--;
                clearTimeout(timer);
                if (running === control) {
                    running = null;
                    node.removeAttribute('aria-busy');
                    node.classList.remove('loading');
                }
            }
        },
    };
    return self;
}

/* The ages of what is stale go on. */
setInterval(() => {
    for (const node of document.querySelectorAll('.age')) text(node, short(Date.now() - node.dataset.since));
}, 1000);
