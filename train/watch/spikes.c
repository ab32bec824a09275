#include "train/watch/spikes.h"

#include <math.h>

enum { MEMORY = 100, FIRST = 50 };
static const double far = 10;
static const double most = 3;

bool xt_spikes_see(struct xt_spikes *spikes, double loss)
{
    bool known = spikes->seen >= FIRST;
    double from_level = spikes->seen ? loss - spikes->level : 0;
    double distance = fabs(from_level);
    if (!spikes->seen)
        spikes->level = loss;
    bool spike = known && from_level > far * spikes->distance;
    if (known && distance > most * spikes->distance)
        distance = most * spikes->distance;
    spikes->seen++;
    double share = 1.0 / (double)(spikes->seen < MEMORY ? spikes->seen : MEMORY);
    spikes->level += share * copysign(distance, from_level);
    spikes->distance += share * (distance - spikes->distance);
    bool begins = spike && !spikes->within;
    spikes->within = spike;
    spikes->count += begins;
    return begins;
}
