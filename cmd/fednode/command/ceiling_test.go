package command

import (
	"testing"
	"time"
)

func TestParseCeiling(t *testing.T) {
	for text, want := range map[string]time.Duration{"2/30d": 720 * time.Hour, "0.5/12h": 12 * time.Hour, "10/52w": 8736 * time.Hour} {
		c, err := parseCeiling(text)
		if err != nil || c.Period != want || c.Name != text {
			t.Errorf("%s: %v, %v, %v", text, c.Budget.Epsilon, c.Period, err)
		}
	}
	for _, text := range []string{"", "2", "2/", "/30d", "2/30", "2/d", "2/-1d", "2/0d", "2/1.5d", "0/30d", "-1/30d", "nan/30d", "inf/30d", "2/40000d", "2/30m", "2/4294967296h"} {
		if c, err := parseCeiling(text); err == nil {
			t.Errorf("%q is %v in %v", text, c.Budget.Epsilon, c.Period)
		}
	}
}
