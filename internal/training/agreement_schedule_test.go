package training_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/protocol"
)

func mixed() protocol.Schedule {
	release := func(name string, n int, l2 float64, cap int) protocol.Release {
		return protocol.Release{Name: name, Len: n, L2: l2, MaxNonZero: cap, Scale: 200}
	}
	return protocol.Schedule{
		{Rounds: 1, Phase: "prepare", Releases: []protocol.Release{release("counts", 40, 5, 25)}, Model: 10},
		{Rounds: 2, Phase: "statistics", Releases: []protocol.Release{release("gramian", 6, 1, 6), release("moments", 80, 2, 80)}, Model: 30},
		{Rounds: 2, Phase: "bias", Releases: []protocol.Release{release("bias", 40, 3, 40)}, Model: 20},
	}
}

// Every difference in a schedule is found, and said where.
func TestScheduleComparison(t *testing.T) {
	honest := publish(t, opened.Experiment(t, "algorithm=am-ssp epsilon=200 accountant=rdp"))
	for reason, change := range map[string]func(protocol.Schedule) protocol.Schedule{
		"number of steps is 2; it must be 3":                       func(s protocol.Schedule) protocol.Schedule { return s[:2] },
		"step 3 rounds is 3; it must be 2":                         func(s protocol.Schedule) protocol.Schedule { s[2].Rounds++; return s },
		"step 3 model bytes is 8034; it must be 8033":              func(s protocol.Schedule) protocol.Schedule { s[2].Model++; return s },
		"step 1 phase is bias; it must be prepare":                 func(s protocol.Schedule) protocol.Schedule { s[0].Phase = "bias"; return s },
		"number of step 3 releases is 1; it must be 2":             func(s protocol.Schedule) protocol.Schedule { s[2].Releases = s[2].Releases[:1]; return s },
		"step 3 release 2 length is 1599; it must be 1600":         func(s protocol.Schedule) protocol.Schedule { s[2].Releases[1].Len--; return s },
		"step 2 release 1 l2 is 2; it must be 1":                   func(s protocol.Schedule) protocol.Schedule { s[1].Releases[0].L2 = 2; return s },
		"step 2 release 1 noise kind is replace; it must be split": func(s protocol.Schedule) protocol.Schedule { s[1].Releases[0].Noise.Kind = protocol.TwoRound; return s },
		"step 3 release 1 name is moments; it must be gramians":    func(s protocol.Schedule) protocol.Schedule { s[2].Releases[0].Name = "moments"; return s },
	} {
		lying := *honest
		lying.Terms.Steps = change(honest.Terms.Steps.Clone())
		if _, err := agreement.Open(&lying); !errors.Is(err, agreement.ErrTerms) || !strings.Contains(err.Error(), reason) {
			t.Errorf("error %v, want %q in it", err, reason)
		}
	}
	if _, err := agreement.Open(honest); err != nil {
		t.Errorf("a schedule differs from itself: %v", err)
	}
}

// A schedule is carried as it is.
func TestPublicSchedule(t *testing.T) {
	p := &agreement.Public{Terms: agreement.Derived{Steps: mixed()}}
	b, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := agreement.Decode(b)
	if err != nil || !reflect.DeepEqual(got.Terms.Steps, p.Terms.Steps) {
		t.Errorf("%+v became %+v, %v", p.Terms.Steps, got, err)
	}
}
