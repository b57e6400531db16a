package lab_test

import (
	"testing"

	"github.com/fedsim/fedsim/lab/figures"
)

// Liberation Sans has Latin, Greek and Cyrillic letters and no Chinese, Japanese or Korean ones, says its own documentation.
func TestUnknownLetters(t *testing.T) {
	f := figures.Figure{Title: "RMSE, ε", X: "Фильмы", Y: "été", Ticks: []string{"千と千尋"}, Series: []figures.Series{{Name: "영화 mine"}}}
	if got := f.Unknown(); got != "千と尋영화" {
		t.Errorf("unknown are %q", got)
	}
	if got := (&figures.Figure{Title: "test RMSE against ε"}).Unknown(); got != "" {
		t.Errorf("unknown are %q", got)
	}
}
