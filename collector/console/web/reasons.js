/* What the rows of the ledger mean, as docs/ledger.md says it (a test compares them), and what to do about losses. */

const WHAT = {
    agent: {
        killed: 'ticks between the last durable batch and the start after a kill or crash of the agent',
        power_lost: 'the same, as far as memory reached, when the machine went down with it',
    },
    etw: {
        session_lost: 'a session that ended unasked: what happened until it was back is not known',
        '*': 'sessions: restarted, reclaimed, grown; kernel_* lost in the kernel, full_* by a ' + 'ring, by kind',
    },
    snap: {
        '*': 'what the slow lane asked for and was denied (Windows)',
    },
    trust: {
        '*': "renewals of the agent's certificate",
    },
    source: {
        in: 'records and notices that reached the agent',
        out: 'handed on to decode and aggregate',
        held: 'in the rings behind the callbacks',
        skipped: 'of no use to anybody',
        ring_full: 'a ring was full or too small; part of lost_events and damaged',
        lost_events: 'lost in the kernel, its sockets or a ring',
        lost_buffers: 'whole buffers, lost in the kernel',
        damaged: 'records, buffers or tables that could not be read',
    },
    table: {
        in: 'processes read',
        out: 'handed on',
        ended: 'ended before the table was done',
        capped: 'more processes than one table takes',
        late: 'ticks left out because the agent was late',
    },
    decode: {
        in: 'ETW records',
        out: 'understood',
        unknown: 'of a kind or version without a decoder',
        filtered: 'known, of no interest',
        short: 'shorter than their version, or of impossible value',
    },
    forward: {
        in: 'of providers that events.providers names; part of decode unknown',
        out: 'handed on to be sent',
        rate: 'above events.rate or events.host_rate',
        size: 'above events.host_bytes',
        filtered: 'of processes that process_filter hides',
        no_schema: 'nothing says what their bytes mean',
        undecodable: 'their bytes do not fit their schema',
        held: 'wait until somebody says what their bytes mean',
        refused: 'the collector is older and keeps none',
        unknown: 'of providers beyond the 4,096 that are remembered',
    },
    aggregate: {
        in: 'events',
        out: 'charged to a process',
        no_process: 'of no process, or of none that is known',
        lost_marks: 'places in the stream where events are missing',
        disk_unmatched: 'disk requests whose beginning is not known',
    },
    instances: {
        in: 'process instances met',
        out: 'forgotten after their end',
        held: 'known now',
        unattributed: 'look-ups of a process or thread nobody knows (any more)',
        full: 'instances beyond the limit',
        threads_full: 'threads beyond the limit',
        text_full: 'names and command lines left out',
        no_memory: 'instances or texts left out',
    },
    lifecycle: {
        unpaired: 'starts and ends told by one of two providers only: some attributes are absent',
    },
    sampler: {
        in: 'rows that were due',
        out: 'made',
        filtered: 'of processes that a filter hides',
        capped: 'more rows than one tick takes',
        no_memory: 'left out',
    },
    filter: {
        '*': 'filtered rows and events, redacted command lines',
    },
    level: {
        '*': 'steps of the level, by cause',
    },
    batch: {
        in: 'rows and lifecycle events',
        out: 'in batches handed on',
        held: 'in the batch that is open',
        no_memory: 'left out',
        oversize: 'too large for any batch',
        unsent: "made while the agent's store had ended",
        text_lost: 'names and command lines left out',
        batches: 'made',
    },
    spool: {
        in: 'put',
        recovered:
            'of an earlier run, found at the start; among them some that were acknowledged and ' +
            'lay in a file that held more: they are sent again, as uplink duplicate, or skipped ' +
            'when the collector says what it has',
        again: 'a dead letter, sent once more',
        out: 'acknowledged by the collector, or set aside',
        held: 'waiting',
        dropped: 'whole batches, for want of room',
        expired: 'older than spool.max_age',
        other_host: 'spooled under another identity, found at the start',
        unwritten: 'the disk failed and memory was full',
        unreadable: 'damaged on the disk; 1 for a whole file when both copies of its header are',
        header_damaged:
            "one of the two copies of a file's header is damaged, found at the start; nothing " + 'is missing',
        forgotten: 'of an earlier run, gone from the disk (a cut file) before they are known to be ' + 'sent',
        ticks_dropped: 'of batches that lost their samples for want of room',
        metrics_dropped: 'their rows',
        events_dropped: 'lifecycle events taken away for want of room',
        metrics_expired: 'rows in expired',
        events_expired: 'lifecycle events in expired',
        metrics_other_host: 'rows in other_host',
        events_other_host: 'lifecycle events in other_host',
        metrics_unwritten: 'rows in unwritten',
        events_unwritten: 'lifecycle events in unwritten',
    },
    queue: {
        in: 'put (a replay keeps its batches in memory)',
        out: 'acknowledged, or set aside',
        held: 'waiting',
        oldest_dropped: 'for want of room',
        refused: 'larger than the queue',
    },
    uplink: {
        in: 'taken to be sent',
        out: 'acknowledged',
        held: 'under way',
        duplicate: 'of them, known to the collector before',
        quarantined: 'the collector will not take them: kept aside, with the reason',
        metrics_quarantined: 'rows in quarantined',
        events_quarantined: 'lifecycle events in quarantined',
    },
    session: {
        in: 'batches that arrived',
        out: 'stored',
        duplicate: 'stored before',
        corrupt: 'no batch; the agent tells of it, and of the next three, as uplink quarantined',
        spoofed: "of another host than the certificate's",
        too_old: 'older than accept_age',
        conflict: 'with the number of another batch',
    },
    stream: {
        missing: 'numbers that never came',
    },
    store: {
        in: 'batches stored and recovered',
        held: 'in the store now',
        too_old: 'dropped by age; questions that reach so far back are partial',
        no_room: 'dropped by size; the same',
        unreadable: "batches, windows and segments that the collector's disk did not give for this " + 'answer',
    },
};

/* By stage and reason, else by stage: what an operator can do. */
const DO = {
    'agent/killed': 'See the logs of agent and system for why it ended: memory limit, crash, kill by hand.',
    'agent/power_lost': 'Nothing in procfleet: the machine went down. A shorter batch.max_age loses less.',
    'etw/session_lost':
        "Another program ended the trace session. See the agent's log for which, and give sessions " +
        'their own names.',
    'source/lost_buffers': 'More or larger buffers for the trace session; see doctor on that host.',
    'source/damaged': 'Run doctor on that host; if the data came from a recording, the file is damaged.',
    source:
        'The host was busier than its buffers allow: larger receive buffers or rings, see docs/limits.md; ' +
        'doctor on that host names the setting.',
    'table/late':
        'The machine was too busy for a sample; totals are right. A lower sampling.rate_hz, or more CPU for the agent.',
    table: 'More processes than a table takes: see docs/limits.md.',
    decode: 'Records did not have the form of their version: the system is newer than this agent. Update it.',
    instances: 'More processes or threads than the agent keeps: raise its limits (docs/limits.md).',
    sampler: 'More rows than one tick takes: raise the limit, or filter processes that nobody needs.',
    batch: 'The agent was short of memory, or an event is larger than a batch. See its log.',
    'spool/dropped':
        'The spool was full before the collector took it: make the connection last, or raise spool.max_bytes.',
    'spool/expired': 'The collector was away for longer than spool.max_age.',
    'spool/unreadable': "The host's disk is damaged, or something else wrote into the spool.",
    'spool/unwritten': "The host's disk failed or was full.",
    spool:
        'The host was not connected for longer than its spool lasts: raise spool.max_bytes, or see why it ' +
        'could not connect.',
    queue: 'The replay was quicker than the collector: replay again, it is known what is there already.',
    uplink: 'The collector refuses these batches; the dead letters on the host say why (docs/operating.md).',
    stream:
        'Batches were dropped on the host or lost on the way: see the rows of spool, uplink and agent of that ' +
        'time.',
    'store/unreadable': "The collector's disk did not give it: see its log, and run doctor and verify there.",
    store: 'Retention dropped it: more room or longer ages for that tier.',
};

function look(table, stage, reason) {
    const of = Object.hasOwn(table, stage) ? table[stage] : null;
    return (of && (Object.hasOwn(of, reason) ? of[reason] : of['*'])) || '';
}

/* The sentence of docs/ledger.md, or "". */
export function whatIs(stage, reason) {
    return look(WHAT, stage, reason);
}

/* What to do about a loss, or "". */
export function whatToDo(stage, reason) {
    const both = `${stage}/${reason}`;
    return Object.hasOwn(DO, both) ? DO[both] : Object.hasOwn(DO, stage) ? DO[stage] : '';
}
