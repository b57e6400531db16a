package user

import (
	"bytes"

	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/model"
)

// The users of one process read the same broadcast one after the other, and a model is measured
// between two rounds by fitting each user to it. The next round begins with the same fits. So a
// broadcast is opened once, and the fits that measuring made are kept until the next model.

// opened is a broadcast that users of one process read.
type opened struct {
	form  []byte
	model *kernel.Broadcast
	as    *Measured // the measured model, if the broadcast is that model; else nil
}

// of reports whether the broadcast was opened from these very bytes, which do not change.
func (o *opened) of(b []byte) bool {
	return o != nil && len(o.form) == len(b) && len(b) > 0 && &o.form[0] == &b[0]
}

// open opens a broadcast, once for all users.
func (t *crowd) open(b []byte) (*opened, error) {
	if o := t.opened.Load(); o.of(b) {
		return o, nil
	}
	m, err := kernel.OpenBroadcast(b, t.Params)
	if err != nil {
		return nil, err
	}
	o := &opened{form: b, model: m}
	if t.many {
		m.Tabulate()
		if of := t.measured.Load(); of != nil && bytes.Equal(of.form, b) {
			o.as = of
		}
		t.opened.Store(o)
	}
	return o, nil
}

// Measured is a model that users are fitted to between two rounds.
type Measured struct {
	*kernel.Model
	form   []byte
	Opened *kernel.Broadcast
	number uint32 // counts the models that were measured, from 1
}

// Measure begins to measure a model by fits of some users of one process.
func Measure(users []User, shared []byte) (of *Measured, err error) {
	t := users[0].crowd
	of = &Measured{form: shared}
	if of.Model, err = kernel.DecodeModel(shared, t.Params); err != nil {
		return nil, err
	}
	if of.Opened, err = kernel.OpenBroadcast(shared, t.Params); err != nil {
		return nil, err
	}
	of.Opened.Tabulate()
	of.number = t.measurings.Add(1)
	t.measured.Store(of)
	return of, nil
}

// FitTo fits the user to a model that is measured. It returns what [Fit] returns, valid until the
// user is fitted again. A user with parameters of its own, which follow no model, keeps those.
func (t *User) FitTo(of *Measured, r model.Ratings) (u []float64, bias float64) {
	if of.Unchosen || solverOf(t.Params).Keeps(t.Params) > 0 {
		return Fit(of.Opened, r)
	}
	t.fit(of.Opened, r)
	t.fitted = of.number
	return t.u, t.bias
}

// fit fits the user to a model, and keeps the result.
func (t *User) fit(m *kernel.Broadcast, all model.Ratings) {
	w := fitted(m, all)
	defer w.Free()
	t.Keep(w)
}

// isFitted reports whether the user was fitted to a broadcast when it was measured.
func (t *User) isFitted(to *opened) bool { return to.as != nil && t.fitted == to.as.number }

// take sets the solution to the user's kept solution.
func (w *Workspace) take(p *kernel.Params, t *User) {
	copy(w.Beta, t.u[:p.Rank])
	copy(w.Beta[p.Rank+p.BiasWidth():], t.u[p.Rank:])
	if p.Bias {
		w.Beta[p.Rank] = t.bias
	}
}
