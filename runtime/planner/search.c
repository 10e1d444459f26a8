#include "planner/search.h"
struct search { struct meter *meter; };
enum tarn_status search_init(const struct dependence *dependence, struct meter *meter, struct polisher *polisher,
			     struct host_arena *arena, struct search **out)
{
	(void)dependence; (void)polisher;
	*out = HOST_NEW(arena, struct search);
	if (!*out) return TARN_ENOMEM;
	(*out)->meter = meter;
	return TARN_OK;
}
bool search_run(struct search *search, const struct search_goal *goal, uint32_t *step, uint32_t *steps)
{
	return meter_measure(search->meter, step, *steps) && search->meter->peak_bytes <= goal->limit;
}
