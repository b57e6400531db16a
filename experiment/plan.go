package experiment

import (
	"fmt"
	"io"
	"strings"
)

// PrintPlan says what the experiment would do and cost, without doing it: the
// resolved configuration as a file, with what follows from it as comments.
func (e *Experiment) PrintPlan(w io.Writer) error {
	var b strings.Builder
	note := func(format string, args ...any) { fmt.Fprintf(&b, "# "+format+"\n", args...) }
	note("%s: %s users, %s items, %s training and %s test ratings", e.Data.Name, grouped(int64(e.Data.Users)),
		grouped(int64(e.Data.Items)), grouped(int64(e.Split.Train.Len())), grouped(int64(e.Split.Test.Len())))
	if e.Config.federated() {
		r := e.Release
		p := e.plan()
		d2, d1 := r.Bounds()
		note("cohort: %s clients, %s required, %s may collude", grouped(int64(e.Cohort.Clients)), grouped(int64(e.Cohort.Required())), grouped(int64(e.Cohort.Colluding())))
		note("release %s: %d coordinates, scale %.6g, ring of %d bits, integer sensitivities %.6g and %.6g", r.Name, r.Len, r.Scale, r.Width, d2, d1)
		note("a client and iteration: masked input %s, model %s", Bytes(int64(p.PackedSize())), Bytes(8*int64(r.Len)))
		if e.Config.Private() {
			note("noise: %s, its removal about %s a client and iteration", r.Noise.Kind, Bytes(int64(p.RemovalSize(e.Cohort.Clients))))
			note("noise: %s, variance %.6g a coordinate in integer units, %.6g in the gradient's", r.Noise.Kind, r.Noise.Variance, r.Noise.Variance/r.Scale/r.Scale)
		} else {
			note("noise: none")
		}
	}
	spent, err := e.spent(e.Privacy.Planned, e.Config.Rounds)
	if err != nil {
		return err
	}
	note("privacy if every attempt is charged the most: %s", e.Statement(spent))
	b.Write(e.Config.YAML())
	_, err = io.WriteString(w, b.String())
	return err
}
