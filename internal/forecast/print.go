package forecast

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/units"
	"github.com/fedsim/fedsim/protocol"
)

//go:embed plan.tmpl
var text string

var plan = template.Must(template.New("plan").Funcs(template.FuncMap{
	"count":   units.Count,
	"counted": units.Counted,
	"up":      dp.RoundUp,
	"rounded": func(x float64) string { return units.Grouped(int64(x + 0.5)) },
	"g":       func(digits int, x float64) string { return fmt.Sprintf("%.*g", digits, x) },
	"bytes":   func(n any) string { return units.Bytes(reflect.ValueOf(n).Int()) }, // of any width
	"memory":  func(n int64) string { return fmt.Sprintf("%11s", units.Bytes(n)) },
	"traffic": func(name, up, down string) string { return fmt.Sprintf("  %-12s  %11s  %11s  ", name, up, down) },
}).Parse(text))

// Print writes the forecast for people: a line or a block for each part of it, with its name in front.
func (f *Forecast) Print(w io.Writer) error { return f.print(w, "whole") }

// PrintBrief writes what decides whether to run the experiment, on one screen: clients, releases by name, traffic,
// memory and privacy. [Forecast.Print] has every release, message and bound.
func (f *Forecast) PrintBrief(w io.Writer) error { return f.print(w, "brief") }

// rowEnds are spaces at the ends of lines, from columns that are empty.
var rowEnds = regexp.MustCompile(` +\n`)

func (f *Forecast) print(w io.Writer, form string) error {
	p := printed{Forecast: f, width: screen.Width(w)}
	if len(f.Uncovered) > 0 {
		p.Mark = "*"
	}
	var b strings.Builder
	if err := plan.ExecuteTemplate(&b, form, p); err != nil {
		return err
	}
	return screen.Print(w, rowEnds.ReplaceAllString(b.String(), "\n"))
}

// printed is a forecast as plan.tmpl prints it.
type printed struct {
	*Forecast
	Mark  string // follows figures that the statement of privacy does not cover; "" if there are none
	width int    // of the screen, in characters
}

// table lays out rows whose first column has names.
func (p printed) table(rows [][]string) string {
	return strings.TrimSuffix(screen.Table(rows, 1, p.width), "\n")
}

// Chances is the table of what may go wrong in the graph of a round.
func (p printed) Chances() string {
	rows := [][]string{{"  chance that", "in a round", "limit", "in the run", "limit"}}
	for _, c := range []struct {
		what string
		Chance
	}{{"colluders open a client", p.Graph.Colluding}, {"the graph is cut", p.Graph.Cut}, {"a round is lost", p.Graph.Starved}} {
		rows = append(rows, []string{"  " + c.what, fmt.Sprintf("%.2g", c.Round), fmt.Sprintf("< %.2g", c.RoundLimit), fmt.Sprintf("%.2g", c.Run), fmt.Sprintf("< %.2g", c.RunLimit)})
	}
	return p.table(rows)
}

// Compared is the table of the forms that the statistics can have.
func (p printed) Compared() string {
	rows := [][]string{{"  form", "up", "down", "run up", "run down", ""}}
	for _, f := range p.Forms {
		if f.Refused == "" {
			note := map[bool]string{true: "this one"}[f.Chosen]
			rows = append(rows, []string{"  " + f.Gramian, units.Bytes(f.Round.Up), units.Bytes(f.Round.Down), units.Bytes(f.Run.Up), units.Bytes(f.Run.Down), note})
		}
	}
	return p.table(rows)
}

// briefRelease sums up the releases of a name.
type briefRelease struct {
	Name           string
	Rounds, Length int
	Low, High      float64 // standard deviation of the noise, in units of the values
	Other          string  // the kind of noise that is not added to a sum
}

// Spread reports whether the noise differs between rounds.
func (b briefRelease) Spread() bool { return b.High-b.Low >= 1e-6*b.High }

// Brief sums up the releases by their names.
func (p printed) Brief() (list []*briefRelease) {
	for _, r := range p.Releases {
		i := slices.IndexFunc(list, func(b *briefRelease) bool { return b.Name == r.Name })
		if i < 0 {
			i, list = len(list), append(list, &briefRelease{Name: r.Name, Low: math.Inf(1)})
		}
		b := list[i]
		b.Rounds, b.Length = b.Rounds+r.Rounds, max(b.Length, r.Len)
		switch r.Noise.Kind {
		case protocol.PartyNoise.String(), protocol.NoNoise.String():
			b.Other = r.Noise.Kind
		default:
			sd := math.Sqrt(r.Noise.ValueVariance)
			b.Low, b.High = min(b.Low, sd), max(b.High, sd)
		}
	}
	return list
}
