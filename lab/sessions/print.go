package sessions

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/units"
	"github.com/fedsim/fedsim/lab/figures"
)

// File names the results of a study in its folder.
const File = "sessions.json"

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
func mean(points []*Point, of func(*Point) (float64, bool)) (sum, low, high float64, ok bool) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, p := range points {
		v, has := of(p)
		if !has {
			return 0, 0, 0, false
		}
		sum, low, high = sum+v, min(low, v), max(high, v)
	}
	return sum / float64(len(points)), low, high, len(points) > 0
}

// measures are the numbers of the table and the pictures.
var measures = []struct {
	id, title, axis string
	of              func(*Point) (float64, bool)
}{
	{"rmse", "RMSE", "RMSE of the next period, in stars", func(p *Point) (float64, bool) { return p.RMSE, true }},
	{"new-items", "RMSE of new items", "RMSE of items that are new, in stars", func(p *Point) (float64, bool) { return optional(p.NewRMSE) }},
	{"recall", "Recall@20", "Recall@20 of the next period", func(p *Point) (float64, bool) { return optional(p.Recall) }},
	{"epsilon", "epsilon of all sessions so far", "ε of all sessions so far", func(p *Point) (float64, bool) { return p.AllEpsilon, true }},
}

func optional(v *float64) (float64, bool) {
	if v == nil {
		return 0, false
	}
	return *v, true
}

// Text is the study as a table of means over seeds, and what it says.
func (r *Result) Text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s on %s: %d sessions, epsilon at most %v at delta %v together, %s; means of %s", r.Algorithm, r.Data, r.Sessions, r.Total, r.Delta, r.Shares, units.Counted(len(r.at(LearningOn, 1)), "seed"))
	line("Each session trains on what was there, and is tested on the later half of each user's ratings until the next.\n")
	line("session    users  items  new items  ratings    tested  of new items")
	for s := 1; s <= r.Sessions; s++ {
		p := r.at(LearningOn, s)[0]
		line("%7d %8s %6s %10d %8s %9s %13d", s, units.Count(p.Users), units.Count(p.Items), p.NewItems, units.Count(p.Ratings), units.Count(p.Tested), p.NewTested)
	}
	for _, m := range measures {
		head := fmt.Sprintf("\n%-32s", m.title)
		for _, arm := range Arms {
			head += fmt.Sprintf(" %12s", arm)
		}
		line("%s", head)
		for s := 1; s <= r.Sessions; s++ {
			row := fmt.Sprintf("%7d %24s", s, "")
			for _, arm := range Arms {
				v, _, _, ok := mean(r.at(arm, s), m.of)
				text := "-"
				if ok && m.id == "epsilon" {
					text = dp.RoundUp(v, 3)
				} else if ok {
					text = fmt.Sprintf("%.4f", v)
				}
				row += fmt.Sprintf(" %12s", text)
			}
			line("%s", row)
		}
	}
	for _, c := range r.Compared {
		verb, by := "better", c.Gain
		if by < 0 {
			verb, by = "worse", -by
		}
		text := fmt.Sprintf("\nlearning on is %.4f %s in RMSE than %s, from the second session on", by, verb, c.With)
		if c.Seeds > 1 {
			text += fmt.Sprintf(" (deviation %.4f over seeds; better in %d of %d)", c.Deviation, c.Better, c.Seeds)
		}
		line("%s", text)
		parts := lists.Map(c.BySession, func(g float64) string { return fmt.Sprintf("%+.4f", g) })
		line("  gain by session: %s", strings.Join(parts, " "))
	}
	return b.String()
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

// Write writes sessions.json and the pictures into the folder of the study, and returns the paths of the pictures.
func (r *Result) Write(dir string, pic figures.Picture) (paths []string, err error) {
	if err = atomicfile.WriteJSON(filepath.Join(dir, File), r); err != nil {
		return nil, err
	}
	for _, f := range r.Figures() {
		path := filepath.Join(dir, f.ID+"."+pic.Format)
		var b bytes.Buffer
		if err = f.Draw(&b, pic); err == nil {
			err = atomicfile.Write(path, b.Bytes(), 0o644)
		}
		if err != nil {
			return paths, err
		}
		paths = append(paths, path)
	}
	return paths, nil
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

// compare compares learning on with each other arm, seed by seed.
func compare(points []Point) []ArmComparison {
	type place struct {
		arm     Arm
		seed    uint64
		session int
	}
	at := make(map[place]float64)
	var seeds []uint64
	last := 0
	for _, p := range points {
		at[place{p.Arm, p.Seed, p.Session}] = p.RMSE
		if !slices.Contains(seeds, p.Seed) {
			seeds = append(seeds, p.Seed)
		}
		last = max(last, p.Session)
	}
	if last < 2 {
		return nil
	}
	var list []ArmComparison
	for _, arm := range Arms[1:] {
		c := ArmComparison{With: arm, Seeds: len(seeds), BySession: make([]float64, last-1)}
		var gains []float64
		for _, seed := range seeds {
			gain := 0.0
			for s := 2; s <= last; s++ {
				d := at[place{arm, seed, s}] - at[place{LearningOn, seed, s}]
				gain += d / float64(last-1)
				c.BySession[s-2] += d / float64(len(seeds))
			}
			gains = append(gains, gain)
			c.Gain += gain / float64(len(seeds))
			if gain > 0 {
				c.Better++
			}
		}
		if len(gains) > 1 {
			for _, g := range gains {
				c.Deviation += (g - c.Gain) * (g - c.Gain) / float64(len(gains)-1)
			}
			c.Deviation = math.Sqrt(c.Deviation)
		}
		list = append(list, c)
	}
	return list
}
