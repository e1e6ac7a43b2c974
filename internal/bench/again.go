package bench

import "slices"

// againSuffix follows the name of a target that is measured a second time.
const againSuffix = ".again"

// Again adds the baseline (a target's name, or empty for the first) as a
// further target: the same deployment, prepared anew and measured as if it
// were another one. What the two differ by is noise. It comes last, so that
// as much time lies between them as between the baseline and any other.
func Again(targets []Target, baseline string) []Target {
	i := 0
	if baseline != "" {
		i = slices.IndexFunc(targets, func(t Target) bool { return t.Name == baseline })
	}
	if i < 0 || len(targets) == 0 {
		return targets // Check says what is wrong
	}
	again := targets[i]
	again.Name, again.AAOf = again.Name+againSuffix, again.Name
	return append(slices.Clone(targets), again)
}
