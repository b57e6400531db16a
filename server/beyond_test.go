package server_test

import (
	"strings"
	"testing"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/server"
)

// A sum that four honest clients cannot have given releases nothing. Release a's vectors, of one
// coordinate other than zero, have an L2 norm of 4 before they are rounded and 4 + 1/2 after. Sums
// of four reach 16 in a coordinate, since integers do not reach 4.5, and 18 in L2. Release b's
// vectors have 1/2, and at most 1 when rounded; their sums reach 4. The strategy is told why, and
// continues; the attempt counts.
func TestSumBeyondReach(t *testing.T) {
	for _, c := range []struct {
		a    [3]int64
		b    int64
		want string // what the refusal names
	}{
		{a: [3]int64{16, 0, 0}, b: 4},
		{a: [3]int64{-16, 0, 0}, b: -4},
		{a: [3]int64{17, 0, 0}, want: `release "a": coordinate 0 of the sum is 17`},
		{a: [3]int64{0, 0, -19}, want: `release "a": coordinate 2 of the sum is -19`},
		{a: [3]int64{14, 14, 0}, want: `release "a": the sum's L2 norm is 19.799`},
		{b: 5, want: `release "b": coordinate 0 of the sum is 5`},
		{a: [3]int64{-1 << 62, 0, 0}, want: `release "a": coordinate 0`},
	} {
		b := newServerBench(t, 2)
		b.command("start")
		m := result(1)
		m.Integers = [][]int64{c.a[:], {c.b}}
		b.receive(m)
		eff := b.command("run")
		var refused string
		for _, e := range eff.Events {
			if e.Kind == protocol.SumRefused && e.Round == 1 {
				refused = e.Err.Error()
			}
		}
		if !strings.Contains(refused, c.want) || (refused == "") != (c.want == "") {
			t.Errorf("%v, %d: refused with %q, want %q", c.a, c.b, refused, c.want)
		}
		told := strings.Join(b.strategy.diary, "; ")
		if c.want != "" && (len(b.strategy.sums) != 0 || !strings.Contains(told, "skip 1: "+c.want) || !strings.HasSuffix(told, "next 2")) {
			t.Errorf("%v, %d: the strategy was told %q", c.a, c.b, told)
		}
		if got, want := b.server.Attempts().Released, uint64(1); c.want == "" && got != want || c.want != "" && (got != 0 || b.server.Attempts().Opened != 2) {
			t.Errorf("%v, %d: attempts %+v", c.a, c.b, b.server.Attempts())
		}
	}
}

// limited is a strategy whose release a never sums to less than zero.
type limited struct{ *strategy }

func (limited) Limits(p *protocol.Plan, hear func(terms ...protocol.Term)) {
	for j := range p.Releases[0].Len {
		hear(protocol.Term{Coordinate: j, Factor: -1})
	}
}

// A sum within the reach that breaks a limit of the strategy is refused too. Rounding leaves less than 1 for each of
// four clients, so that -4 may be honest, and -5 is not.
func TestSumThatBreaksALimit(t *testing.T) {
	for value, want := range map[int64]string{3: "", -4: "", -5: `release "a": coordinate 1`} {
		s := &strategy{rounds: 1}
		b := &serverBench{t: t, strategy: s, server: server.New(limited{s})}
		b.command("start")
		m := result(1)
		m.Integers = [][]int64{{2, value, 0}, {0}}
		b.receive(m)
		b.command("run")
		told := strings.Join(s.diary, "; ")
		if refused := strings.Contains(told, "skip 1: "+want); refused != (want != "") || refused == (len(s.sums) == 1) {
			t.Errorf("%d: the strategy was told %q", value, told)
		}
	}
}
