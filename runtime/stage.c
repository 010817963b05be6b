#include "runtime/stage.h"

struct row {
	const char *name, *promise;
	enum stage_side side;
};

static const struct row rows[STAGE_COUNT] = {
#define X(name, side, promise) [STAGE_##name] = { #name, promise, SIDE_##side },
	STAGES(X)
#undef X
};

const char *stage_name(unsigned stage)
{
	return stage < STAGE_COUNT ? rows[stage].name : "?";
}

const char *stage_promise(unsigned stage)
{
	return stage < STAGE_COUNT ? rows[stage].promise : "?";
}

enum stage_side stage_side(unsigned stage)
{
	return stage < STAGE_COUNT ? rows[stage].side : SIDE_PARENT;
}
