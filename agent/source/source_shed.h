/* The groups of events that may be left out by themselves when they are too many; a bit of a mask
 * each. Who decides is agent/account/shed.h, who leaves them out is a live source. */
#ifndef PROCFLEET_AGENT_SOURCE_SOURCE_SHED_H
#define PROCFLEET_AGENT_SOURCE_SOURCE_SHED_H

enum source_shed {
    SOURCE_SHED_NETWORK,
    SOURCE_SHED_FILE,
    SOURCE_SHED_REGISTRY,
    SOURCE_SHED_VIRTUAL,
    SOURCE_SHED_CLR,
    SOURCE_SHED_COUNT,
};

#endif
