package forecast

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/experiment"
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

// choices returns the key and the words of the forms of the algorithm; none if it has only one
// form.
func (e builder) choices() (*config.Key, []string) {
	if c, ok := e.Instance().(algorithm.ReleaseLister); ok {
		return c.Forms()
	}
	return nil, nil
}

// forms compares the forms.
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
	var refused *config.Error
	switch {
	case errors.As(err, &refused):
		f.Refused = err.Error()
	case err != nil:
		return f, err
	default:
		b := builder{x}.bytesForecast()
		f.Round, f.Run = b.Round, b.Run
	}
	return f, nil
}

// muchTraffic is the number of bytes of a client in a round from which a warning follows: at 10
// Mbit/s they take more than six seconds.
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
	key, words := e.choices()
	if key == nil {
		return nil, nil
	}
	up := e.bytesForecast().Round.Up
	if up <= muchTraffic {
		return nil, nil
	}
	warning := fmt.Sprintf("each client sends %s in a round; ", units.Bytes(up))
	for _, word := range words {
		if word == e.Config.Text(key) {
			continue
		}
		other, err := e.form(key, word)
		if err != nil {
			return nil, err
		}
		if other.Refused == "" && other.Round.Up < up {
			return []string{fmt.Sprintf("%swith %s %s it would be %s", warning, key.Name, word, units.Bytes(other.Round.Up))}, nil
		}
	}
	return []string{warning + "a smaller rank takes less"}, nil
}
