package environment

import "testing"

func TestJudge(t *testing.T) {
	primary, secondary := MemberStatus{State: "PRIMARY", Healthy: true}, MemberStatus{State: "SECONDARY", Healthy: true}
	up, down := MachineStatus{Healthy: true}, MachineStatus{}
	for name, c := range map[string]struct {
		machines    []MachineStatus
		members     []MemberStatus
		deployment  bool
		environment bool
	}{
		"all well":              {[]MachineStatus{up}, []MemberStatus{primary, secondary}, true, true},
		"no machines":           {nil, []MemberStatus{primary, secondary}, true, true},
		"a machine is down":     {[]MachineStatus{up, down}, []MemberStatus{primary, secondary}, true, false},
		"a member does not say": {nil, []MemberStatus{primary, {}}, false, false},
		"no primary":            {nil, []MemberStatus{secondary, secondary}, false, false},
		"two primaries":         {nil, []MemberStatus{primary, primary}, false, false},
	} {
		s := Status{Machines: c.machines, Deployments: []DeploymentStatus{{Members: c.members}}}
		s.Judge()
		if s.Deployments[0].Healthy != c.deployment || s.Healthy != c.environment {
			t.Errorf("%s: deployment %t, environment %t", name, s.Deployments[0].Healthy, s.Healthy)
		}
	}
	empty := NewStatus(&Inventory{})
	if empty.Judge(); empty.Healthy {
		t.Error("an environment without deployments is healthy")
	}
}
