package report

import "github.com/mongo-sandbox/sandbox/internal/stats"

// jsonMember: values are the figures by name, as docs/bottleneck.md lists
// them; what a member did not tell is absent.
type jsonMember struct {
	Member   string             `json:"member"`
	State    string             `json:"state"`
	Readings int                `json:"readings"`
	SpanS    float64            `json:"span_s"`
	Values   map[string]float64 `json:"values"` // encoding/json sorts the names
}

// jsonBottleneck: member, role and where are absent when the limit is no
// member's.
type jsonBottleneck struct {
	Verdict  Limit          `json:"verdict"`
	Member   string         `json:"member,omitempty"`
	Role     string         `json:"role,omitempty"`
	Where    string         `json:"where,omitempty"`
	Evidence []jsonEvidence `json:"evidence"`
	Also     []Limit        `json:"also,omitempty"`
	Missing  []string       `json:"missing,omitempty"`
}

// jsonEvidence: threshold is what the value had to reach for the verdict;
// without one, the value puts the others in proportion.
type jsonEvidence struct {
	Figure    string   `json:"figure"`
	Member    string   `json:"member,omitempty"`
	Value     float64  `json:"value"`
	Threshold *float64 `json:"threshold,omitempty"`
	Text      string   `json:"text"`
}

// jsonLimit is the verdict of most of a target's cells: cells of them, out
// of of.
type jsonLimit struct {
	Target     string         `json:"target"`
	Size       int64          `json:"size"`
	Variant    string         `json:"variant"`
	Bottleneck jsonBottleneck `json:"bottleneck"`
	Cells      int            `json:"cells"`
	Of         int            `json:"of"`
}

// jsonSteady: reached is null when the cell was too short to tell. changes
// are relative: 0.12 is 12 %.
type jsonSteady struct {
	Reached     *bool       `json:"reached"`
	P           float64     `json:"p,omitempty"`
	Detectable  float64     `json:"detectable,omitempty"`
	Metric      string      `json:"metric,omitempty"`
	Shape       stats.Shape `json:"shape,omitempty"`
	Change      float64     `json:"change,omitempty"`
	LastHalf    float64     `json:"last_half,omitempty"`
	AtS         float64     `json:"at_s,omitempty"`
	SteadyFromS float64     `json:"steady_from_s,omitempty"`
}

// jsonPlanLatency: the ratio to the baseline's mean and its interval are
// absent for the baseline itself.
type jsonPlanLatency struct {
	MeanMS  float64  `json:"mean_ms"`
	Ratio   *float64 `json:"ratio,omitempty"`
	Low     *float64 `json:"low,omitempty"`
	High    *float64 `json:"high,omitempty"`
	Verdict string   `json:"verdict,omitempty"`
}

func newJSONMembers(members []MemberMetrics) []jsonMember {
	var out []jsonMember
	for i := range members {
		m := &members[i]
		x := jsonMember{Member: m.Member, State: m.State, Readings: m.Readings, SpanS: digits(m.SpanS), Values: map[string]float64{}}
		for name, v := range m.Values {
			x.Values[name] = digits(v)
		}
		out = append(out, x)
	}
	return out
}

func newJSONBottleneck(b *Bottleneck) *jsonBottleneck {
	if b == nil {
		return nil
	}
	x := &jsonBottleneck{Verdict: b.Limit, Member: b.Member, Role: b.Role, Where: b.Where, Evidence: []jsonEvidence{}, Also: b.Also, Missing: b.Missing}
	for i := range b.Evidence {
		e := &b.Evidence[i]
		y := jsonEvidence{Figure: e.Figure, Member: e.Member, Value: digits(e.Value), Text: e.text()}
		if e.Threshold != 0 {
			y.Threshold = &e.Threshold
		}
		x.Evidence = append(x.Evidence, y)
	}
	return x
}

func newJSONLimits(c *Comparison) []jsonLimit {
	out := []jsonLimit{}
	for i := range c.Limits {
		l := &c.Limits[i]
		g := &c.Groups[l.Group]
		out = append(out, jsonLimit{l.Target, g.Size, g.Variant, *newJSONBottleneck(&l.Bottleneck), l.Cells, l.Of})
	}
	return out
}

func newJSONSteady(s *Steady) *jsonSteady {
	if s == nil {
		return nil
	}
	if !s.Known {
		return &jsonSteady{}
	}
	return &jsonSteady{
		Reached: &s.Reached, P: digits(s.P), Detectable: digits(s.Detectable), Metric: s.Metric, Shape: s.Shape, Change: digits(s.Change),
		LastHalf: digits(s.LastHalf), AtS: digits(s.AtS), SteadyFromS: digits(s.SteadyFromS),
	}
}

func newJSONPlanLatency(p *TargetPlan) *jsonPlanLatency {
	if p.MeanMS == 0 {
		return nil
	}
	x := &jsonPlanLatency{MeanMS: digits(p.MeanMS)}
	if d := p.Difference; d != nil {
		ratio := digits(d.Ratio.Value)
		x.Ratio, x.Verdict = &ratio, d.Verdict()
		if d.Ratio.HasInterval() {
			low, high := digits(d.Ratio.Low), digits(d.Ratio.High)
			x.Low, x.High = &low, &high
		}
	}
	return x
}
