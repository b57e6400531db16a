package forecast

import (
	"fmt"
	"io"
	"math"

	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/units"
	"github.com/fedsim/fedsim/protocol"
)

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
			text += " in " + counted(s.rounds, "round")
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
