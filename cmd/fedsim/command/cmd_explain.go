package command

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/cli/screen"
)

// explainCmd is fedsim explain.
type explainCmd struct {
	Name string `arg:"" help:"An algorithm or a key: ssp-c, epsilon, split.test."`
}

// Run prints what an algorithm or a key does.
func (c *explainCmd) Run(s streams) error {
	name := strings.TrimLeft(c.Name, "-")
	if k := config.Find(strings.ToLower(name)); k != nil {
		return explainKey(s.out, k)
	}
	a, err := algorithmNamed(name)
	if err != nil {
		return cli.Misusef("%q is neither an algorithm nor a key; keys with similar names: %s; algorithms: %s",
			name, strings.Join(config.Nearest(name)[:3], ", "), strings.Join(algorithm.Names(), ", "))
	}
	return explainAlgorithm(s.out, a.About())
}

func explainKey(w io.Writer, k *config.Key) error {
	var b strings.Builder
	width := screen.Width(w)
	b.WriteString(k.Name + "\n" + screen.Wrapped(k.Help, "  ", width) + "\n")
	row := func(name, text string) { b.WriteString(screen.Wrapped(name+": "+text, "  ", width)) }
	row("values", k.Values())
	row("default", k.Standard())
	if k.Flag {
		row("flag", "--"+k.Name)
	} else {
		row("flag", "--set "+k.Name+"=VALUE")
	}
	switch k.Scope {
	case config.Simulated:
		row("where", "in simulations only")
	case config.Deployed:
		row("where", "in deployments only; all parties agree on the value")
	case config.Own:
		row("where", "each process has its own value")
	default:
		row("where", "in simulations and deployments; all parties agree on the value")
	}
	var with []string
	for _, name := range algorithm.Names() {
		if slices.Contains(algorithm.Find(name).About().Used(), k) {
			with = append(with, name)
		}
	}
	if len(with) == len(algorithm.Names()) {
		row("algorithms", "all")
	} else {
		row("algorithms", strings.Join(with, ", "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func explainAlgorithm(w io.Writer, a *algorithm.About) error {
	var b strings.Builder
	width := screen.Width(w)
	b.WriteString(a.Name + "\n" + screen.Wrapped(a.Help, "  ", width) + "\n")
	row := func(name, text string) { b.WriteString(screen.Wrapped(name+": "+text, "  ", width)) }
	if a.Paper != "" {
		row("source", a.Paper)
	}
	row("clients", a.Clients.String())
	if a.Private {
		units := make([]string, len(a.Units))
		for i, u := range a.Units {
			units[i] = map[dp.Unit]string{dp.User: "all ratings of a user", dp.Rating: "one rating", dp.Example: "one example"}[u]
		}
		row("protects", strings.Join(units, " or ")+", by "+a.Noise.String())
	} else {
		row("protects", "nothing: it adds no noise")
	}
	var c config.Config
	algorithm.Name.Set(&c, a.Name)
	for _, x := range []struct {
		name string
		of   func(config.Config) float64
	}{{"rounds", a.Rounds}, {"rank", a.Rank}} {
		if x.of != nil && !math.IsNaN(x.of(c)) {
			row(x.name, fmt.Sprintf("%v unless the settings or the data ask for another number", x.of(c)))
		}
	}
	used := make([]string, 0, len(a.Keys))
	for _, k := range a.Keys {
		used = append(used, k.Name)
	}
	slices.Sort(used)
	row("keys", strings.Join(used, ", "))
	row("try", "fedsim run --algorithm "+a.Name)
	row("more", "fedsim keys --algorithm "+a.Name)
	_, err := io.WriteString(w, b.String())
	return err
}
