package forecast

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/units"
)

// FormForecast is a client's traffic in one of the forms of an algorithm's statistics.
type FormForecast struct {
	Gramian string  `json:"gramian"`
	Chosen  bool    `json:"chosen"`
	Round   Traffic `json:"round"` // of the most expensive round
	Run     Traffic `json:"run"`
	// Refused says why a run cannot have this form; traffic is zero then.
	Refused string `json:"refused,omitempty"`
}

// choices returns the key and the words of the forms of the algorithm; none if there is one form.
func (e builder) choices() (*config.Key, []string) {
	if c, ok := e.Instance().(algorithm.ReleaseLister); ok {
		return c.Forms()
	}
	return nil, nil
}

func (e builder) forms() ([]FormForecast, error) {
	key, words := e.choices()
	var list []FormForecast
	for _, word := range words {
		f, err := e.form(key, word)
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
}

func (e builder) form(key *config.Key, word string) (FormForecast, error) {
	f := FormForecast{Gramian: word, Chosen: word == e.Config.Text(key)}
	x, err := e.WithWord(key, word)
	if _, refused := errors.AsType[*config.Error](err); refused {
		f.Refused, err = err.Error(), nil
	} else if err == nil {
		b := builder{x}.bytesForecast()
		f.Round, f.Run = b.Round, b.Run
	}
	return f, err
}

// muchTraffic is the bytes of a client in a round from which to warn: at 10 Mbit/s they take over six seconds.
const muchTraffic = 8_000_000

// Warnings returns sentences that a user should read before an experiment runs on its data.
func Warnings(x *experiment.Experiment) ([]string, error) {
	list, err := builder{x}.traffic()
	if v := x.Data.Value; len(v) > 1 && !slices.ContainsFunc(v, func(s float32) bool { return s != v[0] }) && algorithm.Feedback.Chosen(x.Config) != "implicit" {
		list = append(list, fmt.Sprintf("all %d ratings are %v, so that there is nothing to predict: if each says that a user took an item, say feedback implicit", len(v), v[0]))
	}
	return list, err
}

// traffic warns of much traffic if another form has less.
func (e builder) traffic() ([]string, error) {
	key, _ := e.choices()
	if key == nil {
		return nil, nil
	}
	up := e.bytesForecast().Round.Up
	if up <= muchTraffic {
		return nil, nil
	}
	less := "a smaller rank takes less"
	forms, err := e.forms()
	if i := slices.IndexFunc(forms, func(f FormForecast) bool { return f.Refused == "" && f.Round.Up < up }); i >= 0 {
		less = fmt.Sprintf("with %s %s it would be %s", key.Name, forms[i].Gramian, units.Bytes(forms[i].Round.Up))
	}
	return []string{fmt.Sprintf("each client sends %s in a round; %s", units.Bytes(up), less)}, err
}

// Shares says how sessions divide their common budget.
type Shares string

// The ways to divide a budget. Each session gets a share of μ², where μ is the parameter of the
// Gaussian trade-off with the total ε: these squares add up over sessions, and ε does not.
const (
	Equal       Shares = "equal"        // each session gets the same share
	FrontLoaded Shares = "front-loaded" // the first session gets half, the later sessions share the rest equally
)

// maxSessions bounds the number of sessions of one plan: more than one a day for a century.
const maxSessions = 100_000

// SessionsForecast divides a budget between sessions that train on the ratings of the same units, one after
// another. The total is the cost of all releases of all sessions, composed by the accountant of the run.
type SessionsForecast struct {
	Sessions int             `json:"sessions"`
	Shares   Shares          `json:"shares"`
	Epsilon  float64         `json:"epsilon"` // of all sessions together, at most the total that was asked for
	Delta    float64         `json:"delta"`   // of all sessions together, and of each session by itself
	Added    float64         `json:"added"`   // the sum of the sessions' ε, which also bounds the total, at a δ as many times as large
	Parts    []SessionsShare `json:"parts"`
}

// SessionsShare is a number of sessions in sequence with the same ε.
type SessionsShare struct {
	Sessions int     `json:"sessions"`
	Epsilon  float64 `json:"epsilon"` // of each session by itself, with three significant digits
}

// Sessions plans n sessions of an experiment, from 1 to 100,000, that together cost at most the total ε, and uses at
// least 98% of it if the noise allows that. It returns the experiment of the first session. Settings that the experiment
// leaves open are chosen anew for the ε of a session. Sessions returns a [config.Error] if the experiment has no
// noise whose releases compose, or if a session's budget would be too small for any noise.
func Sessions(x *experiment.Experiment, n int, total float64, shares Shares) (*experiment.Experiment, *SessionsForecast, error) {
	switch {
	case n < 1 || n > maxSessions:
		return nil, nil, config.Errorf("%d sessions: from 1 to %d can be planned", n, maxSessions)
	case !(total > 0) || math.IsInf(total, 1):
		return nil, nil, config.Errorf("a total epsilon of %v: it must be positive and finite", total)
	case !x.Private():
		return nil, nil, config.Errorf("epsilon: without noise every session costs an infinite epsilon")
	case x.Search != nil:
		return nil, nil, config.Errorf("%s: the search has spent privacy, and the total is of the sessions alone; leave it out if other data chose the settings", algorithm.ChosenBy.Name)
	case x.Privacy.Proved.Accountant != "":
		return nil, nil, config.Errorf("algorithm: %s proves its epsilon as a whole, and has no releases to compose; plan %d sessions of epsilon %s each, which add up",
			x.About().Name, n, threeDigits(total/float64(n)))
	}
	delta := x.Privacy.Budget.Delta
	goal := dp.GaussianMu(total, delta)
	var best *experiment.Experiment
	var plan *SessionsForecast
	low, high := 0.0, math.Inf(1) // of the μ that is divided
	for mu, tries := goal, 0; tries < 12 && (plan == nil || plan.Epsilon < 0.98*total); tries++ {
		first, p, err := divide(x, n, mu, shares)
		if err != nil {
			return nil, nil, err
		}
		if p.Epsilon <= total {
			best, plan, low = first, p, mu
		} else {
			high = mu
		}
		mu *= 0.999 * goal / dp.GaussianMu(p.Epsilon, delta)
		if !(mu > low && mu < high) {
			mu = (low + high) / 2
		}
		if math.IsInf(mu, 1) {
			break
		}
	}
	if plan == nil {
		return nil, nil, config.Errorf("epsilon: no budget of %d sessions was found that together cost at most %v; plan fewer sessions or a larger total", n, total)
	}
	return best, plan, nil
}

// divide returns the first experiment and the cost of sessions that divide μ.
func divide(x *experiment.Experiment, n int, mu float64, shares Shares) (*experiment.Experiment, *SessionsForecast, error) {
	p := &SessionsForecast{Sessions: n, Shares: shares, Delta: x.Privacy.Budget.Delta}
	type part struct {
		sessions int
		mu       float64 // of each session
	}
	parts := []part{{n, mu / math.Sqrt(float64(n))}}
	if shares == FrontLoaded && n > 1 {
		parts = []part{{1, mu / math.Sqrt2}, {n - 1, mu / math.Sqrt(2*float64(n-1))}}
	}
	var first *experiment.Experiment
	all := dp.Problem{Delta: p.Delta, Accountant: x.Privacy.Budget.Accountant}
	for _, s := range parts {
		text := threeDigits(dp.GaussianEpsilon(s.mu, p.Delta))
		e, err := x.WithWord(algorithm.Epsilon.Key, text)
		if err != nil {
			return nil, nil, fmt.Errorf("a session of epsilon %s: %w", text, err)
		}
		first = cmp.Or(first, e)
		alone, err := e.Planned()
		if err != nil {
			return nil, nil, err
		}
		p.Parts = append(p.Parts, SessionsShare{s.sessions, algorithm.Epsilon.Value(e.Config)})
		p.Added += float64(s.sessions) * alone.Epsilon
		all.Events = append(all.Events, lists.Map(e.Privacy.Run, func(ev dp.Event) dp.Event { return ev.Times(s.sessions) })...)
		all.SamplerError += float64(s.sessions) * e.Privacy.Budget.SamplerError
	}
	r, err := all.Epsilon()
	p.Epsilon = r.Epsilon
	return first, p, err
}

// threeDigits rounds a positive number down to three significant digits.
func threeDigits(v float64) string {
	step := math.Pow(10, math.Floor(math.Log10(v))-2)
	return strconv.FormatFloat(math.Floor(v/step+1e-9)*step, 'g', 3, 64)
}
