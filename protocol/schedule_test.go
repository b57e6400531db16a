package protocol

import (
	"math"
	"reflect"
	"strings"
	"testing"
)

// mixed are five rounds of three kinds, the second of which releases two vectors.
func mixed() Schedule {
	release := func(name string, n int, l2 float64, cap int) Release {
		return Release{Name: name, Len: n, L2: l2, MaxNonZero: cap, Scale: 200}
	}
	return Schedule{
		{Rounds: 1, Phase: "prepare", Releases: []Release{release("counts", 40, 5, 25)}, Model: 10},
		{Rounds: 2, Phase: "statistics", Releases: []Release{release("gramian", 6, 1, 6), release("moments", 80, 2, 80)}, Model: 30},
		{Rounds: 2, Phase: "bias", Releases: []Release{release("bias", 40, 3, 40)}, Model: 20},
	}
}

// own is a uniform schedule of parties that take three steps in each of n rounds.
func own(n int) Schedule {
	r := Release{Name: "items", Len: 8, L2: 1, MaxNonZero: 8, Scale: 16, Width: 32, Noise: Noise{Kind: PartyNoise, Multiplier: 1, SamplingRate: 0.1, Steps: 3}}
	return Schedule{{Rounds: n, Phase: "items", Releases: []Release{r}, Model: 32}}
}

func TestScheduleAt(t *testing.T) {
	s := mixed()
	if s.Rounds() != 5 || s.Model() != 30 || s.First().Name != "counts" {
		t.Errorf("%d rounds, a model of %d bytes, first %s; want 5, 30, counts", s.Rounds(), s.Model(), s.First().Name)
	}
	for round, phase := range []string{"", "prepare", "statistics", "statistics", "bias", "bias", ""} {
		got := ""
		if step := s.At(uint64(round)); step != nil {
			got = step.Phase
		}
		if got != phase {
			t.Errorf("round %d is of phase %q, want %q", round, got, phase)
		}
	}
	if s.At(math.MaxUint64) != nil {
		t.Error("there is a round 2^64-1")
	}
}

func TestScheduleReleases(t *testing.T) {
	s := mixed()
	// 40 + 2·(6 + 80) + 2·40
	if vectors, coordinates := s.Vectors(); vectors != 7 || coordinates != 292 {
		t.Errorf("%d vectors of %d coordinates, want 7 of 292", vectors, coordinates)
	}
	again := s.Clone()
	var names []string
	for step, r := range again.All() {
		names = append(names, step.Phase+"/"+r.Name)
		r.Len++
	}
	if got := strings.Join(names, " "); got != "prepare/counts statistics/gramian statistics/moments bias/bias" {
		t.Errorf("all releases are %s", got)
	}
	if again[1].Releases[1].Len != 81 || !reflect.DeepEqual(s, mixed()) {
		t.Errorf("changed in place, the clone has %+v, and what it is of %+v", again, s)
	}
}

func TestUniformSchedule(t *testing.T) {
	other := func(change func(*Step)) Schedule {
		s := append(own(2), own(1)...)
		change(&s[1])
		return s
	}
	for _, c := range []struct {
		name string
		s    Schedule
		want bool
	}{
		{"one step", own(4), true},
		{"more local steps at the end", other(func(s *Step) { s.Releases[0].Noise.Steps = 9 }), true},
		{"another phase", other(func(s *Step) { s.Phase = "users" }), false},
		{"another length", other(func(s *Step) { s.Releases[0].Len++ }), false},
		{"other noise", other(func(s *Step) { s.Releases[0].Noise.Multiplier = 2 }), false},
		{"one more release", other(func(s *Step) { s.Releases = append(s.Releases, s.Releases[0]) }), false},
		{"mixed", mixed(), false},
	} {
		if got := c.s.Uniform(); got != c.want {
			t.Errorf("%s: uniform is %t", c.name, got)
		}
	}
}

func TestScheduleEndsWithMoreSteps(t *testing.T) {
	for _, n := range []int{1, 4} {
		s := own(n)
		before := s.Clone()
		s.EndWith(17)
		if s.Rounds() != n || s.At(uint64(n)).Releases[0].Noise.Steps != 17 {
			t.Errorf("%d rounds became %+v", n, s)
		}
		for i := uint64(1); i < uint64(n); i++ {
			if !reflect.DeepEqual(s.At(i).Releases, before.At(i).Releases) {
				t.Errorf("round %d of %d releases %+v", i, n, s.At(i).Releases)
			}
		}
	}
}

func TestAlikeSteps(t *testing.T) {
	s := mixed()[1]
	longer := s
	longer.Rounds++
	if !s.Alike(longer) {
		t.Error("steps of other lengths are not alike")
	}
	for what, change := range map[string]func(*Step){
		"phase": func(s *Step) { s.Phase = "bias" },
		"model": func(s *Step) { s.Model++ },
		"noise": func(s *Step) { s.Releases[1].Noise.Variance = 2 },
		"fewer": func(s *Step) { s.Releases = s.Releases[:1] },
	} {
		o := mixed()[1]
		if change(&o); s.Alike(o) {
			t.Errorf("steps with another %s are alike", what)
		}
	}
}

func TestScheduleValidate(t *testing.T) {
	if err := mixed().Validate(); err != nil {
		t.Errorf("a sound schedule: %v", err)
	}
	for reason, change := range map[string]func(Schedule) Schedule{
		"the schedule has no steps":              func(Schedule) Schedule { return nil },
		"step 2 has 0 rounds":                    func(s Schedule) Schedule { s[1].Rounds = 0; return s },
		"step 3 has -1 rounds":                   func(s Schedule) Schedule { s[2].Rounds = -1; return s },
		"step 2 has 2147483647 rounds":           func(s Schedule) Schedule { s[1].Rounds = math.MaxInt32; return s },
		"step 1 has a model of -1 bytes":         func(s Schedule) Schedule { s[0].Model = -1; return s },
		"step 1 has a model of 1073741825 bytes": func(s Schedule) Schedule { s[0].Model = 1<<30 + 1; return s },
		"step 3 releases nothing":                func(s Schedule) Schedule { s[2].Releases = nil; return s },
	} {
		if err := change(mixed()).Validate(); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("error %v, want %q in it", err, reason)
		}
	}
}
