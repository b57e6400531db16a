package lab_test

import (
	"bytes"
	"compress/zlib"
	"github.com/fedsim/fedsim/lab/figures"
	"io"
	"math"
	"strings"
	"testing"
)

// content returns what the streams of a PDF file hold.
func content(t *testing.T, file []byte) string {
	t.Helper()
	var b strings.Builder
	for rest := file; ; {
		_, after, found := bytes.Cut(rest, []byte("stream\n"))
		if !found {
			return b.String()
		}
		stream, next, _ := bytes.Cut(after, []byte("endstream"))
		if z, err := zlib.NewReader(bytes.NewReader(stream)); err == nil {
			text, _ := io.ReadAll(z)
			b.Write(text)
		}
		rest = next
	}
}

// A PDF has no letter of its text as two wrong signs: the bytes of ε and ± are not in its text. Letters of ASCII
// stay text. A band has the colour of its line, 0072B2, with its own alpha and not darkened by it.
func TestPDF(t *testing.T) {
	f := figures.Figure{ID: "f", X: "ε of it", Y: "mean ± deviation", Series: []figures.Series{{Name: "plain", X: []float64{1, 2}, Y: []float64{1, 2}, Low: []float64{0.5, 1}, High: []float64{2, 3}}}}
	var b bytes.Buffer
	if err := f.Draw(&b, figures.Picture{Format: "pdf", Width: 17, Low: math.NaN(), High: math.NaN()}); err != nil {
		t.Fatal(err)
	}
	text := content(t, b.Bytes())
	for _, wrong := range []string{"\xce\xb5", "\xc2\xb1", "of it"} {
		if strings.Contains(text, wrong) {
			t.Errorf("the text has %q", wrong)
		}
	}
	if !strings.Contains(text, "plain") {
		t.Error("the legend is no text")
	}
	if !strings.Contains(text, "0.000 0.447 0.698 rg") || strings.Contains(text, "0.000 0.086 0.137 rg") { // a fifth of it
		t.Error("the band is darkened")
	}
}
