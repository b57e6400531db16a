package noise

import "testing"

// Samplers are made once as long as they are kept: the latest 16 of a kind, or as many as Keep says.
func TestTablesKeep(t *testing.T) {
	for keep, want := range map[int]int{0: 16, 3: 3, 20: 20} {
		tables := Tables{Keep: keep}
		made := make([]*Skellam, want+1)
		for i := range made {
			var err error
			if made[i], err = tables.Skellam(float64(i + 1)); err != nil {
				t.Fatal(err)
			}
		}
		for i := want; i >= 0; i-- { // the first was given up for the last
			s, err := tables.Skellam(float64(i + 1))
			if err != nil {
				t.Fatal(err)
			}
			if kept := s == made[i]; kept != (i > 0) {
				t.Errorf("keep %d: sampler %d of %d is kept: %v", keep, i+1, len(made), kept)
			}
		}
	}
}
