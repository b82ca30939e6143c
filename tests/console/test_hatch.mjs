/* What did not arrive, and what was never there. */

import assert from 'node:assert/strict';
import test from 'node:test';
import { holes, lossRuns, nearest, seriesOf, stretches } from '../../collector/console/web/hatch.js';

const NS = 1000000n;
const series = (...present) => ({ t0_ms: 1000, step_ns: '1000000000', n: present.length, present });
const host = (first, more) => ({ first_ns: String(BigInt(first) * NS), last_ns: '0', connected: true, ...more });

test('what lies in front of the first data was not lost', () => {
    assert.deepEqual(lossRuns(series(0, 600000, 1000000), [host(2400)]), []);
    assert.equal(lossRuns(series(0, 500000, 1000000), [host(2400)])[0].from, 2000);
    assert.equal(lossRuns(series(1000000, 0), [host(500)]).length, 1);
});

test('a host that came later, or has ended, makes no loss of the others', () => {
    assert.deepEqual(lossRuns(series(500000, 750000, 1000000), [host(0), host(2500)]), []);
    const ended = host(1500, { ended: true, connected: false, last_ns: String(1800n * NS) });
    assert.deepEqual(lossRuns(series(1000000, 1000000), [ended]), []);
    assert.equal(lossRuns(series(1000000, 900000), [ended, host(0)])[0].from, 2000);
});

test('the data nearest to a range without is found, and is no longer than the range', () => {
    const hosts = [host(5000, { last_ns: String(9000n * NS) }), host(100, { last_ns: String(200n * NS) })];
    assert.deepEqual(nearest(hosts, 1000, 2000), { from: 100, to: 201 });
    assert.deepEqual(nearest(hosts, 4000, 4500), { from: 5000, to: 5500 });
    assert.deepEqual(nearest(hosts.slice(0, 1), 20000, 21000), { from: 8001, to: 9001 });
    assert.equal(nearest(hosts, 4000, 6000), null);
    assert.equal(nearest([], 0, 1), null);
});

test('where no agent ran and nothing was lost is not measured, between two samples is not', () => {
    const within = (hosts_in, step_ns) =>
        holes({ t0_ms: 0, step_ns, n: 9, present: Array(9).fill(1000000), hosts_in }, [host(0)]).within;
    const ran = within([1, 0, 0, 0, 1, 0, 1, 1, 1], '2000000000');
    assert.deepEqual(ran, [{ from: 2000, until: 8000, text: 'not measured' }]);
    assert.deepEqual(within([1, 0, 0, 0, 1, 0, 1, 1, 1], '1000000000'), []);
    assert.deepEqual(within(undefined, '2000000000'), []);
});

test('nothing that arrived is a loss only where coverage knows of one', () => {
    const asked = { t0_ms: 0, step_ns: '10000000000', n: 6, present: [1000000, 0, 0, 0, 0, 1000000] };
    const none = { ...asked, hosts_in: [1, 0, 0, 0, 0, 1], lost: [] };
    assert.deepEqual(lossRuns(none, [host(0)]), []);
    assert.deepEqual(holes(none, [host(0)]).within, [{ from: 10000, until: 50000, text: 'not measured' }]);
    const some = { ...none, lost: [{ from: 21000, to: 29000 }] };
    assert.deepEqual(
        lossRuns(some, [host(0)]).map((r) => [r.from, r.to]),
        [[20000, 30000]],
    );
    assert.equal(lossRuns({ ...asked, hosts_in: none.hosts_in }, [host(0)]).length, 1);
});

test('a host whose agent did not run is not measured, beside others that were', () => {
    const times = { first_ns: '1', last_ns: String(90000n * NS), connected: true };
    const density = {
        t0_ms: 0,
        step_ms: 10000,
        present: Array(9).fill(1000000),
        starts: [],
        ends: [],
        hosts_in: [2, 2, 1, 1, 2, 2, 2, 2, 2],
        measured: [
            [0, 9],
            [0, 2, 2, 5],
        ],
        lost: [],
    };
    const hosts = ['a', 'b'].map((name) => ({ ...times, name }));
    const answer = { since_ns: '0', until_ns: String(90000n * NS), hosts, lifetimes: { density } };
    const found = stretches(answer).filter((l) => /not measured/.test(l.text));
    assert.deepEqual(
        found.map((l) => [l.host, l.from, l.until, l.usual]),
        [[1, 20000, 40000, true]],
    );
    assert.equal(seriesOf(density).n, 9);
    density.hosts_in = [2, 2, 0, 0, 2, 2, 2, 2, 2];
    assert.ok(stretches(answer).some((l) => l.host === -1 && l.from === 20000));
    density.lost = [{ from: 25000, to: 26000 }];
    assert.ok(!stretches(answer).some((l) => l.host === 1 && /not measured/.test(l.text)));
});
