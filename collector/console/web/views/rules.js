/* Rules: what the collector's rules say now of each subject: what fires and since when, what is not known and why,
 * and, on request, what is well. */
import { rowsOf, sign, STATES, valueText } from '../alarms.js';
import { el } from '../el.js';
import { count } from '../format.js';
import { keys } from '../keys.js';
import { panel } from '../panel.js';
import { table } from '../table.js';
import { clock, full, short } from '../time.js';

const MOST = 1000; /* subjects of one answer: first those that fire, then unknown ones */

function open(root, app) {
    const well = el('button.chip', { type: 'button', onclick: () => toggle() }, '● those that are well');
    const p = panel(root, { title: 'Rules', tools: [well], height: '16rem' });
    let rows = [];
    let more = false;

    const toggle = () => app.set({ mode: app.state().mode === 'all' ? null : 'all' }, { replace: true });
    const hostCell = (row) =>
        row.host === '*' ? '' : el('a', { href: app.link({ view: 'h', args: [row.host] }), tabindex: '-1' }, row.host);
    const t = table(p.body, {
        label: 'Rules',
        key: (row) => `${row.f.rule} ${row.host} ${row.f.subject ?? ''}`,
        height: 'calc(100vh - 13rem)',
        onSelect: (row, key) => {
            app.set({ sel: key }, { replace: true });
            app.say(`${row.f.rule} ${row.state[0]} ${row.host} ${row.f.subject ?? ''}`);
        },
        onOpen: (row) => row.host !== '*' && app.go({ view: 'h', args: [row.host] }),
        columns: [
            {
                key: 'state',
                title: 'STATE',
                width: '12ch',
                sort: (row) => row.state[3],
                cell: sign,
                plain: (row) => row.state[0],
            },
            {
                key: 'rule',
                title: 'RULE',
                width: '24ch',
                cut: true,
                cell: (row) => row.f.rule,
                sort: (row) => row.f.rule,
            },
            {
                key: 'host',
                title: 'HOST',
                width: '16ch',
                cut: true,
                cell: hostCell,
                sort: (row) => row.host,
                plain: (row) => row.host,
            },
            {
                key: 'subject',
                title: 'SUBJECT',
                width: '20ch',
                cut: true,
                cell: (row) => row.f.subject ?? '',
                sort: (row) => row.f.subject ?? '',
            },
            {
                key: 'since',
                title: 'SINCE',
                width: '18ch',
                hint: 'since when it fires; of others when it was judged',
                sort: (row) => row.since,
                cell: (row) =>
                    el('span', { title: full(row.since) }, clock(row.since, 1000), ' ', short(app.now() - row.since)),
                plain: (row) => full(row.since),
            },
            {
                key: 'value',
                title: 'VALUE',
                width: '12ch',
                right: true,
                cell: (row) => valueText(row.f.value, row.f.unit),
                sort: (row) => row.f.value ?? null,
            },
            {
                key: 'limit',
                title: 'LIMIT',
                width: '12ch',
                right: true,
                cell: (row) => valueText(row.f.limit, row.f.unit),
            },
            { key: 'severity', title: 'SEVERITY', width: '11ch', cell: (row) => row.f.severity ?? '' },
            {
                key: 'text',
                title: 'SAYS',
                wide: true,
                cell: (row) =>
                    [row.text, row.f.reason, row.f.silenced && `silenced by ${row.f.silenced}`]
                        .filter(Boolean)
                        .join('; '),
            },
        ],
    });

    function shown() {
        const all = app.state().mode === 'all';
        const some = all ? rows : rows.filter((row) => row.state !== STATES.ok);
        const n = (state) => rows.filter((row) => row.state === STATES[state]).length;
        well.setAttribute('aria-pressed', String(all));
        t.rows(some);
        t.select(app.state().sel || null);
        p.note(
            `${count(n('firing'))} firing, ${count(n('unknown'))} unknown, ${count(n('pending'))} pending, ` +
                `${count(n('ok'))} ok${more ? ' of the first ' + count(rows.length) : ''}`,
        );
    }

    function draw(answer) {
        rows = rowsOf(answer, app.now());
        more = answer.more;
        shown();
    }

    const empty = (answer) =>
        answer.events.length
            ? null
            : {
                  text: app.state().host
                      ? `No rule watches a host named ${app.state().host}.`
                      : 'The collector has no rules, or they watch nothing yet: rules.file names a file of them.',
                  offers: app.state().host ? [{ text: 'Show all hosts', run: () => app.set({ host: null }) }] : [],
              };

    async function update(changed) {
        if (changed?.size && [...changed].every((key) => ['mode', 'sel', 'sort'].includes(key))) return shown();
        const { host } = app.state();
        await p.load((signal) => app.ask('rules', { host, limit: MOST }, signal), draw, { empty });
    }

    const stop = keys({
        a: ['those that are well, too', toggle, 'order'],
        ArrowDown: ['next row', () => t.grid.focus(), 'selection'],
    });
    return {
        update,
        step: () => 10e3,
        close() {
            stop();
            p.close();
            t.close();
        },
    };
}

export default { view: 'rules', key: '9', title: 'Rules', uses: ['host'], open };
