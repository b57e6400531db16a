package sessions

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/template"

	"gonum.org/v1/gonum/stat"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/units"
	"github.com/fedsim/fedsim/lab/figures"
)

// at returns the points of an arm after a session, one of each seed.
func (r *Result) at(arm Arm, session int) (list []*Point) {
	for i := range r.Points {
		if p := &r.Points[i]; p.Arm == arm && p.Session == session {
			list = append(list, p)
		}
	}
	return list
}

// mean returns the mean of a number over some points, and its ends; false where a point lacks it.
func mean(points []*Point, of func(*Point) *float64) (sum, low, high float64, ok bool) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, p := range points {
		v := of(p)
		if v == nil {
			return 0, 0, 0, false
		}
		sum, low, high = sum+*v, min(low, *v), max(high, *v)
	}
	return sum / float64(len(points)), low, high, len(points) > 0
}

// measure is a number of the table and the pictures.
type measure struct {
	id, Title, axis string
	of              func(*Point) *float64 // nil of a point that lacks it
}

var measures = []measure{
	{"rmse", "RMSE", "RMSE of the next period, in stars", func(p *Point) *float64 { return &p.RMSE }},
	{"new-items", "RMSE of new items", "RMSE of items that are new, in stars", func(p *Point) *float64 { return p.NewRMSE }},
	{"recall", "Recall@20", "Recall@20 of the next period", func(p *Point) *float64 { return p.Recall }},
	{"epsilon", "epsilon of all sessions so far", "ε of all sessions so far", func(p *Point) *float64 { return &p.AllEpsilon }},
}

//go:embed print.tmpl
var printed string

var forms = template.Must(template.New("sessions").Funcs(template.FuncMap{
	"count": units.Count, "counted": units.Counted, "f": func(v float64) string { return fmt.Sprintf("%.4f", v) },
	"arms":     func() []Arm { return Arms },
	"measures": func() []measure { return measures },
}).Parse(printed))

// Text is the study as a table of means over seeds, and what it says.
func (r *Result) Text() (string, error) {
	var b strings.Builder
	err := forms.Execute(&b, r)
	return b.String(), err
}

// First returns the points of learning on after each session, of the first seed.
func (r *Result) First() (list []*Point) {
	for s := range r.Sessions {
		list = append(list, r.at(LearningOn, s+1)[0])
	}
	return list
}

// Seeds is the number of seeds.
func (r *Result) Seeds() int { return len(r.at(LearningOn, 1)) }

// Mean is a cell of a table: the mean over seeds, or "-".
func (r *Result) Mean(m measure, arm Arm, session int) string {
	v, _, _, ok := mean(r.at(arm, session), m.of)
	switch {
	case !ok:
		return "-"
	case m.id == "epsilon":
		return dp.RoundUp(v, 3)
	default:
		return fmt.Sprintf("%.4f", v)
	}
}

// Figures returns a picture of each measure over the sessions: means over seeds, with the band from the smallest to the largest.
func (r *Result) Figures() (list []figures.Figure) {
	for _, m := range measures {
		f := figures.Figure{ID: m.id, Title: fmt.Sprintf("%s on %s", r.Algorithm, r.Data), X: "session", Y: m.axis}
		for k, arm := range Arms {
			s := figures.Series{Name: string(arm), Colour: k, Runs: len(r.at(arm, 1))}
			for session := 1; session <= r.Sessions; session++ {
				if v, low, high, ok := mean(r.at(arm, session), m.of); ok {
					s.X, s.Y, s.Low, s.High = append(s.X, float64(session)), append(s.Y, v), append(s.Low, low), append(s.High, high)
				}
			}
			if len(s.X) > 0 {
				f.Series = append(f.Series, s)
			}
		}
		if len(f.Series) > 0 {
			list = append(list, f)
		}
	}
	return list
}

// ArmComparison compares learning on with another arm by the RMSE of all periods after the first. In the first both are the same.
type ArmComparison struct {
	With   Arm     `json:"with"`
	Seeds  int     `json:"seeds"`
	Better int     `json:"better"` // seeds in which learning on has the smaller RMSE
	Gain   float64 `json:"gain"`   // mean over seeds by which the RMSE of learning on is smaller
	// Deviation is the standard deviation of the gain over seeds; 0 of a single seed.
	Deviation float64 `json:"deviation"`
	// BySession has the mean gain after each session, from the second on.
	BySession []float64 `json:"by_session"`
}

// Compare compares learning on with each other arm, seed by seed.
func Compare(points []Point) (list []ArmComparison) {
	last := slices.MaxFunc(points, func(a, b Point) int { return a.Session - b.Session }).Session
	if last < 2 {
		return nil
	}
	r := &Result{Points: points}
	for _, arm := range Arms[1:] {
		seeds := r.at(arm, 1)
		c := ArmComparison{With: arm, Seeds: len(seeds), BySession: make([]float64, last-1)}
		gains := make([]float64, len(seeds))
		for s := 2; s <= last; s++ {
			for k, p := range r.at(arm, s) {
				d := p.RMSE - r.at(LearningOn, s)[k].RMSE
				gains[k] += d / float64(last-1)
				c.BySession[s-2] += d / float64(len(seeds))
			}
		}
		for _, gain := range gains {
			if gain > 0 {
				c.Better++
			}
		}
		if c.Gain = stat.Mean(gains, nil); len(gains) > 1 {
			c.Deviation = stat.StdDev(gains, nil)
		}
		list = append(list, c)
	}
	return list
}
