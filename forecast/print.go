package forecast

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/units"
	"github.com/fedsim/fedsim/protocol"
)

// Print writes the forecast for people: a line or a block for each part of it, with its name in
// front.
func (f *Forecast) Print(w io.Writer) error {
	p := forecastPrinter{width: screen.Width(w)}
	mark := p.opening(f)
	for _, r := range f.Releases {
		p.release(r)
	}
	if f.Bytes != nil {
		rounds := f.Rounds
		if f.Cohort != nil && f.Cohort.Turns > 0 {
			rounds = f.Cohort.Turns
		}
		p.bytes(f.Bytes, rounds)
	}
	if len(f.Forms) > 0 {
		p.forms(f.Forms)
	}
	if c := f.Encoder; c != nil {
		p.head("encoder", "%s epochs in batches of %s items cost %.3g of what DP-SGD does in as many steps, which visits an item %.4g times an epoch"+mark, units.Grouped(int64(c.Epochs+0.5)), units.Grouped(int64(c.Batch)), c.Ratio, c.Visits)
	}
	if f.Memory != nil {
		p.memory(f.Memory, f.Graph != nil)
		p.line("")
	}
	p.closing(f, mark)
	return screen.Print(w, p.String())
}

// opening writes the algorithm, the data and the number of clients. It returns the mark of figures that the
// statement of privacy does not cover; "" if there are none.
func (p *forecastPrinter) opening(f *Forecast) (mark string) {
	amount := units.Counted(f.Rounds, "round")
	if f.Cohort == nil {
		amount = units.Grouped(int64(f.Rounds)) + " passes over the ratings"
	}
	p.head("algorithm", "%s, %s", f.Algorithm, amount)
	d := f.Data
	parts := fmt.Sprintf("%s training", units.Grouped(int64(d.TrainingRatings)))
	if d.ValidationRatings > 0 {
		parts += fmt.Sprintf(", %s validation", units.Grouped(int64(d.ValidationRatings)))
	}
	if len(f.Uncovered) > 0 {
		mark = "*"
	}
	if d.Features > 0 {
		p.head("data", "%s, %s examples, %s features, %s and %s test examples", d.Name, units.Grouped(int64(d.Users)), units.Grouped(int64(d.Features)), parts, units.Grouped(int64(d.TestRatings)))
	} else {
		p.head("data", "%s, %s users, %s items, %s and %s test ratings"+mark, d.Name, units.Grouped(int64(d.Users)), units.Grouped(int64(d.Items)), parts, units.Grouped(int64(d.TestRatings)))
	}
	if d.PublicUsers > 0 {
		p.head("public", "%s more users with %s ratings, which are public: no epsilon covers them", units.Grouped(int64(d.PublicUsers)), units.Grouped(int64(d.PublicRatings)))
	}
	if c := f.Cohort; c != nil {
		if c.Enrolled > 0 {
			p.head("turns", "a round asks %s of %s clients and continues with the first %s; no client is asked for more than %s",
				units.Grouped(int64(c.Clients)), units.Grouped(int64(c.Enrolled)), units.Grouped(int64(c.Goal)), units.Counted(c.Turns, "round"))
		}
		p.head("cohort", "%s clients; %s may be lost in a round and %s may collude",
			units.Grouped(int64(cmp.Or(c.Goal, c.Clients))), units.Grouped(int64(c.Lost)), units.Grouped(int64(c.Colluding)))
		p.head("exchanges", "%d with each client in a round, %d in the first and after a loss", c.Exchanges, c.SetupExchanges)
	}
	if f.Graph == nil {
		p.head("secagg", "%s", f.Secagg)
	} else {
		p.head("secagg", "%s, %s", f.Secagg, f.Graph.Mode)
		p.graph(f.Graph)
	}
	return mark
}

// closing writes what the run takes on this machine, and what it protects.
func (p *forecastPrinter) closing(f *Forecast, mark string) {
	if x := f.Calibration; x != nil {
		p.head("simulation", "at most about %s of memory, with all roles in one process"+mark, units.Bytes(x.PeakMemory))
		first, last := x.Trials[0], x.Trials[len(x.Trials)-1]
		p.row("training", "about %s of processor time, %s a round; %s on %d workers"+mark, seconds(x.Processor), seconds(x.Round), seconds(x.Wall), x.Workers)
		p.row("", "by training on %s and %s of the users, which took %s here", units.Grouped(int64(first.Users)), units.Grouped(int64(last.Users)), seconds(x.Took))
		p.line("")
	}
	p.head("privacy", "%s", f.Privacy.Words(f.observers))
	p.head("statement", "%s", f.Privacy)
	if line := f.Privacy.ReplacementLine(f.released); line != "" {
		p.line("  %s", line)
	}
	if f.Sessions != nil {
		f.Sessions.print(p)
	}
	if mark != "" {
		p.line("%s exact counts of ratings, which this statement does not cover: show them only to people who may see the ratings", mark)
	}
}

func seconds(s float64) string { return fmt.Sprintf("%.3g s", s) }

// forecastPrinter collects the text for a screen of a width in characters.
type forecastPrinter struct {
	strings.Builder
	width int
}

// table writes rows below an empty line; the first column has names.
func (p *forecastPrinter) table(rows [][]string) {
	p.WriteString("\n" + screen.Table(rows, 1, p.width))
}

// line ends at its last word.
func (p *forecastPrinter) line(format string, args ...any) {
	p.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " ") + "\n")
}

// head begins a part: its name and its main figure.
func (p *forecastPrinter) head(name, format string, args ...any) {
	p.line("%s: %s", name, fmt.Sprintf(format, args...))
}

// block begins a part of several lines.
func (p *forecastPrinter) block(name, format string, args ...any) {
	p.line("")
	p.head(name, format, args...)
}

func (p *forecastPrinter) row(name, format string, args ...any) {
	p.line("  %-12s  %s", name, fmt.Sprintf(format, args...))
}

func (p *forecastPrinter) graph(g *GraphForecast) {
	shape := "sparse"
	if g.Complete {
		shape = "complete"
	}
	p.row("graph", "%s, n = %s clients, k = %s neighbours of each", shape, units.Grouped(int64(g.Clients)), units.Grouped(int64(g.Degree)))
	p.row("threshold", "t = %s neighbours restore a client's secret", units.Grouped(int64(g.Threshold)))
	rows := [][]string{{"  chance that", "in a round", "limit", "in the run", "limit"}}
	for _, c := range []struct {
		what string
		Chance
	}{
		{"colluders open a client", g.Colluding},
		{"the graph is cut", g.Cut},
		{"a round is lost", g.Starved},
	} {
		rows = append(rows, []string{"  " + c.what, fmt.Sprintf("%.2g", c.Round), fmt.Sprintf("< %.2g", c.RoundLimit), fmt.Sprintf("%.2g", c.Run), fmt.Sprintf("< %.2g", c.RunLimit)})
	}
	p.table(rows)
}

func (p *forecastPrinter) release(r ReleaseForecast) {
	if r.Phase == "" {
		p.block("release", "%s", r.Name)
	} else {
		p.block("release", "%s, in %s of phase %s", r.Name, units.Counted(r.Rounds, "round"), r.Phase)
	}
	sparse := ""
	if r.MaxNonZero < r.Len {
		sparse = fmt.Sprintf(", of a client at most %s other than zero", units.Grouped(int64(r.MaxNonZero)))
	}
	p.row("length", "%s coordinates%s", units.Grouped(int64(r.Len)), sparse)
	bounds := fmt.Sprintf("L2 %.6g", r.L2)
	if r.L1 != nil {
		bounds += fmt.Sprintf(", L1 %.6g", *r.L1)
	}
	if r.LInf != nil {
		bounds += fmt.Sprintf(", a coordinate %.6g", *r.LInf)
	}
	if r.Sensitivity != nil {
		bounds += fmt.Sprintf("; one unit moves it by at most %.6g", *r.Sensitivity)
	}
	p.row("bounds", "%s; in integers L2 %.6g, L1 %.6g", bounds, r.IntegerL2, r.IntegerL1)
	p.row("scale", "%.6g integers to a unit", r.Scale)
	p.row("ring", "%d bits", r.Width)
	n := r.Noise
	switch n.Kind {
	case protocol.PartyNoise.String():
		p.row("noise", "%s, %.6g times the sensitivity of a step, on samples of rate %.6g", n.Kind, n.Multiplier, n.SamplingRate)
		for _, s := range n.Steps {
			p.row("", "%s steps of sensitivity %.6g: variance %.6g", units.Grouped(int64(s.Count)), s.Sensitivity, s.Variance)
		}
	case protocol.NoNoise.String():
		p.row("noise", "%s", n.Kind)
	default:
		p.row("noise", "%s, variance %.6g in integers, %.6g in units; each client adds %.6g", n.Kind, n.Variance, n.ValueVariance, n.ShareVariance)
	}
	u := r.Unseen
	p.row(map[bool]string{false: "undetected", true: "proved"}[u.Proved], "one lying client can change a coordinate by %.4g, as much as %.3g honest clients, and L2 by %.4g, as %.3g", u.Coordinate, u.CoordinateClients, u.L2, u.L2Clients)
}

func (p *forecastPrinter) bytes(b *BytesForecast, rounds int) {
	head := "of a client, if no client is lost"
	if len(b.Steps) > 0 {
		head += "; of each message the largest"
	}
	p.block("bytes", "%s", head)
	row := func(name, up, down, note string) { p.row(name, "%11s  %11s  %s", up, down, note) }
	row("", "up", "down", "")
	for _, m := range b.Messages {
		if m.Kind == protocol.KindFinal.String() {
			continue
		}
		size := units.Bytes(int64(m.Bytes))
		if m.Direction == Up {
			row(m.Kind, size, "", "")
		} else {
			row(m.Kind, "", size, "")
		}
		if m.Kind == protocol.KindUnmask.String() && b.Removal > 0 {
			row("  removal", units.Bytes(int64(b.Removal)), "", "of noise; part of unmask, expected")
		}
	}
	if len(b.Steps) == 0 {
		row("round", units.Bytes(b.Round.Up), units.Bytes(b.Round.Down), "")
	}
	for _, s := range b.Steps {
		row("round", units.Bytes(s.Up), units.Bytes(s.Down), fmt.Sprintf("each of %s of phase %s", units.Counted(s.Rounds, "round"), s.Phase))
	}
	row("run", units.Bytes(b.Run.Up), units.Bytes(b.Run.Down), fmt.Sprintf("%s rounds and the final model", units.Grouped(int64(rounds))))
}

func (p *forecastPrinter) forms(forms []FormForecast) {
	p.block("gramian", "forms of the second-order statistics, and what a client would send and get")
	rows := [][]string{{"  form", "up", "down", "run up", "run down", ""}}
	for _, f := range forms {
		if f.Refused != "" {
			p.row(f.Gramian, "refused: %s", f.Refused)
			continue
		}
		note := ""
		if f.Chosen {
			note = "this one"
		}
		rows = append(rows, []string{"  " + f.Gramian, units.Bytes(f.Round.Up), units.Bytes(f.Round.Down), units.Bytes(f.Run.Up), units.Bytes(f.Run.Down), note})
	}
	p.table(rows)
}

func (p *forecastPrinter) memory(m *MemoryForecast, real bool) {
	p.block("memory", "of the aggregator in a round, about")
	row := func(name string, n int64, note string) { p.row(name, "%11s  %s", units.Bytes(n), note) }
	row("accumulators", m.Accumulators, "")
	row("sums", m.Sums, "")
	if real {
		row("keys", m.Keys, "")
		row("shares", m.Shares, "")
	}
	row("total", m.Total, "")
	if real {
		row("unmasking", m.Unmasking, "more on each worker")
		if m.Spooled > 0 {
			row("on disk", m.Spooled, "shares that wait, in the folder of the aggregator's --state")
		}
	}
}

// PrintBrief writes what decides whether to run the experiment, on one screen: clients, releases by name, traffic,
// memory and privacy. [Forecast.Print] has every release, message and bound.
func (f *Forecast) PrintBrief(w io.Writer) error {
	p := forecastPrinter{width: screen.Width(w)}
	mark := p.opening(f)
	p.releases(f.Releases)
	if b := f.Bytes; b != nil {
		p.head("traffic", "a client sends %s and receives %s in the run; at most %s and %s in a round",
			units.Bytes(b.Run.Up), units.Bytes(b.Run.Down), units.Bytes(b.Round.Up), units.Bytes(b.Round.Down))
	}
	if f.Memory != nil {
		disk := ""
		if f.Memory.Spooled > 0 {
			disk = fmt.Sprintf(", and %s on its disk", units.Bytes(f.Memory.Spooled))
		}
		p.head("memory", "about %s for the sums of the aggregator%s", units.Bytes(f.Memory.Total), disk)
	}
	p.closing(f, mark)
	return screen.Print(w, p.String())
}

// releases writes a line for each name of a release: rounds, length and noise.
func (p *forecastPrinter) releases(list []ReleaseForecast) {
	type sum struct {
		rounds, length int
		low, high      float64 // standard deviation of the noise, in units of the values
		other          string  // the kind of noise that is not added to a sum
	}
	byName := make(map[string]*sum)
	var names []string
	for _, r := range list {
		s := byName[r.Name]
		if s == nil {
			s = &sum{low: math.Inf(1)}
			byName[r.Name] = s
			names = append(names, r.Name)
		}
		s.rounds += r.Rounds
		s.length = max(s.length, r.Len)
		switch r.Noise.Kind {
		case protocol.PartyNoise.String(), protocol.NoNoise.String():
			s.other = r.Noise.Kind
		default:
			sd := math.Sqrt(r.Noise.ValueVariance)
			s.low, s.high = min(s.low, sd), max(s.high, sd)
		}
	}
	for _, name := range names {
		s := byName[name]
		text := fmt.Sprintf("%s numbers", units.Grouped(int64(s.length)))
		if s.rounds > 0 {
			text += " in " + units.Counted(s.rounds, "round")
		}
		switch {
		case s.other != "":
			text += ", noise " + s.other
		case s.high-s.low < 1e-6*s.high:
			text += fmt.Sprintf(", noise of standard deviation %.3g in the sum", s.high)
		default:
			text += fmt.Sprintf(", noise of standard deviation %.3g to %.3g in the sum", s.low, s.high)
		}
		p.head("release "+name, "%s", text)
	}
}
