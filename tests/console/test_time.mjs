// Times, spans and the state of the page in its address, without a browser.
import assert from 'node:assert/strict';
import test from 'node:test';
import * as format from '../../collector/console/web/format.js';
import { formatTime, parse, parseTime, rangeParams } from '../../collector/console/web/store.js';
import * as store from '../../collector/console/web/store.js';
import * as time from '../../collector/console/web/time.js';

const AT = Date.UTC(2026, 10, 23, 14, 3, 12);

test('spans are read and written as the command line has them', () => {
    for (const [text, ms] of [
        ['2s', 2e3],
        ['15m', 900e3],
        ['1h', 36e5],
        ['24h', 864e5],
        ['7d', 6048e5],
        ['250ms', 250],
    ]) {
        assert.equal(time.spanMs(text), ms);
        assert.equal(time.spanText(ms), text);
    }
    for (const bad of ['', '15', 'm', '-5m', '1e3s', '5 m', '5x', null]) assert.ok(Number.isNaN(time.spanMs(bad)));
});

test('a moment survives its way through a link, to the microsecond', () => {
    for (const ms of [AT, AT + 0.001, AT + 123.456, Date.UTC(1999, 11, 31, 23, 59, 59), 0]) {
        assert.ok(Math.abs(time.fromCompact(time.compact(ms)) - ms) < 0.0005, time.compact(ms));
    }
    for (const bad of ['', '2026-11-23T14:00:00Z', '20260231T000000Z', '20261123T1400Z', '20261123T140000', 'x']) {
        assert.ok(Number.isNaN(time.fromCompact(bad)), bad);
    }
});

test('what people type is a time, or none', () => {
    const of = (text) => time.parse(text, AT);
    assert.equal(of('14:03'), AT - 12e3);
    assert.equal(of('15:00'), AT - 12e3 - 23 * 36e5 - 3 * 60e3, 'a time of day that is to come was yesterday');
    assert.equal(of('2026-11-23 14:03:12.5'), AT + 500);
    assert.equal(of('2026-11-23T14:03:12Z'), AT);
    assert.equal(of('-5m'), AT - 300e3);
    assert.equal(of('now'), AT);
    for (const bad of ['', '25:00', '14:61', '2026-13-01', '2026-02-30', 'noon', '14'])
        assert.ok(Number.isNaN(of(bad)), bad);
});

test('nanoseconds are shown to the last digit', () => {
    assert.equal(time.full('1795442592123456789'), '2026-11-23 14:03:12.123456789');
    assert.equal(time.full('1795442592000000001'), '2026-11-23 14:03:12.000000001');
    assert.ok(Math.abs(time.nsMs('1795442592123456789') - (AT + 123.456789)) < 0.001);
    assert.ok(Number.isNaN(time.nsMs(null)));
});

test('ticks lie on round times, and there are never more than asked for', () => {
    for (let width = 0.01; width < 4e9; width *= 3.7) {
        const marks = time.ticks(AT + 0.123, AT + 0.123 + width, 8);
        assert.ok(marks.length <= 8 && marks.length >= 1, `${width}: ${marks.length}`);
        for (const m of marks) assert.ok(m.ms >= AT && m.ms <= AT + 0.124 + width);
    }
    assert.deepEqual(
        time.ticks(AT, AT + 60e3, 4).map((m) => m.text),
        ['14:03:15', '14:03:30', '14:03:45', '14:04:00'],
    );
});

test('a state survives its way through the address', () => {
    const state = {
        ...parse(''),
        view: 'p',
        args: ['web-1', '15199.1795406489890762082'],
        t: formatTime(AT, AT + 9e5),
        host: 'web-*',
        name: 'a b&c=d#e?f/ü',
        by: 'read',
        sel: '<img src=x>',
    };
    assert.deepEqual(parse(store.format(state)), state);
    assert.equal(
        store.format({ ...parse(''), view: 'top', by: 'memory', host: 'web-*' }),
        '#/top?host=web-*&by=memory',
    );
});

test('an address that makes no sense is the fleet, or the default', () => {
    for (const bad of [
        '#/nothing/here',
        '#%%%',
        '#/?t=..&host=%zz',
        '#ticket=00',
        '#/top?t=-0s',
        '#/top?t=x..y',
        '#/?__proto__=1',
    ]) {
        const state = parse(bad);
        assert.equal(state.t, '-15m', bad);
        assert.ok(['', 'top'].includes(state.view), bad);
    }
    assert.equal(parse('#/top?t=-15m&live=1ms').live, '');
    assert.equal(
        parse('#/top?t=20261123T140000Z..20261123T141500Z&live=2s').live,
        '',
        'only what moves with now is live',
    );
    assert.equal(parseTime('20261123T141500Z..20261123T140000Z'), null);
});

test('the range is asked for as it is meant', () => {
    assert.deepEqual(rangeParams(parse('#/?t=-1h')), { last: '1h' });
    assert.deepEqual(rangeParams(parse('#/?t=20261123T140000Z..20261123T140312.5Z')), {
        since: '2026-11-23T14:00:00Z',
        until: '2026-11-23T14:03:12.5Z',
    });
});

test('a value that is not there is a dash, and what was lost is never rounded away', () => {
    assert.equal(format.ppm(999999), '99.99 %');
    assert.equal(format.ppm(1000000), '100 %');
    for (const show of [format.count, format.bytes, format.percent, format.ppm]) assert.equal(show(null), '–');
    assert.equal(format.value('read_bytes', null), '–');
    assert.equal(format.bytes(0), '0 B');
    assert.equal(format.bytes(1023), '1.0 KiB');
    assert.equal(format.percent(0.01), '<0.1 %');
    assert.equal(format.count(1234567), '1,234,567');
    assert.equal(format.rate('cpu_time', 5e8), '50.0 %');
});
