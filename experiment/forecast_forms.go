package experiment

import (
	"errors"
	"fmt"

	"github.com/fedsim/fedsim/fedssp"
)

// FormForecast is what a client would send and get with second-order statistics in one
// of their forms.
type FormForecast struct {
	Gramian   string  `json:"gramian"`
	Chosen    bool    `json:"chosen"`
	Iteration Traffic `json:"iteration"` // of the dearest
	Run       Traffic `json:"run"`
	// Refused is why there is no run in this form; traffic is zero then.
	Refused string `json:"refused,omitempty"`
}

// gramianForms compares the forms that the algorithm may have; none where it sums no
// second-order statistics.
func (e *Experiment) gramianForms() ([]FormForecast, error) {
	if !e.sumsGramians() {
		return nil, nil
	}
	var list []FormForecast
	for _, form := range []fedssp.GramianForm{fedssp.PerItem, fedssp.One} {
		f, err := e.gramianForm(form)
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
}

// sumsGramians reports whether second-order statistics are summed, in some form.
func (e *Experiment) sumsGramians() bool {
	return e.Config.Algorithm.statistical() && !e.Config.biasOnly()
}

func (e *Experiment) gramianForm(form fedssp.GramianForm) (FormForecast, error) {
	f := FormForecast{Gramian: string(form), Chosen: string(form) == e.Config.Statistics.Gramian}
	x, err := e.withGramian(form)
	var refused *ConfigError
	switch {
	case errors.As(err, &refused):
		f.Refused = err.Error()
	case err != nil:
		return f, err
	default:
		b := x.bytesForecast()
		f.Iteration, f.Run = b.Iteration, b.Run
	}
	return f, nil
}

// withGramian is the experiment as it would be if it were asked for with second-order statistics in
// another form: what was left to be chosen is chosen for that.
func (e *Experiment) withGramian(form fedssp.GramianForm) (*Experiment, error) {
	if e.Config.Statistics.Gramian == string(form) {
		return e, nil
	}
	x := *e
	x.Config = e.asked
	x.Config.Statistics.Gramian = string(form)
	x.Config.Features = e.Config.Features           // they have been read
	if list := x.Config.problems(); len(list) > 0 { // the first says enough
		return nil, &ConfigError{fmt.Errorf("%s: %s", list[0].key, list[0].reason)}
	}
	if err := x.choose(); err != nil {
		return nil, err
	}
	return &x, x.prepare()
}

// muchTraffic is how many bytes a client sends in an iteration before it is worth a
// warning: at 10 Mbit/s it takes more than six seconds.
const muchTraffic = 8_000_000

// Warnings are what a user should know before the experiment runs, on its data.
func (e *Experiment) Warnings() ([]string, error) {
	if !e.sumsGramians() {
		return nil, nil
	}
	up := e.bytesForecast().Iteration.Up
	if up <= muchTraffic {
		return nil, nil
	}
	form := fedssp.PerItem
	if e.Config.Statistics.Gramian == string(form) {
		form = fedssp.One
	}
	other, err := e.gramianForm(form)
	if err != nil {
		return nil, err
	}
	warning := fmt.Sprintf("each client sends %s in an iteration; ", Bytes(up))
	if other.Refused != "" || other.Iteration.Up >= up {
		return []string{warning + "a smaller rank takes less"}, nil
	}
	return []string{fmt.Sprintf("%swith statistics.gramian %s it would be %s", warning, other.Gramian, Bytes(other.Iteration.Up))}, nil
}
