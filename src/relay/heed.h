/* heed.h - makes a station do what operators said in the store: pauses, and settings changed while it runs. */
#ifndef OB_RELAY_HEED_H
#define OB_RELAY_HEED_H

#include "relay/keeper.h"
#include "relay/station.h"

void ob_heed(struct ob_station *station, const struct ob_config *config, const struct ob_keeper_news *news,
             const struct ob_log *log);

#endif
