package lab_test

import (
	"bytes"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/dp"
	_ "github.com/fedsim/fedsim/internal/families"
	"github.com/fedsim/fedsim/internal/study"
	"github.com/fedsim/fedsim/lab/figures"
	"github.com/fedsim/fedsim/lab/page"
)

// finished makes folders of runs as fedsim run leaves them, with just what a page reads.
func finished(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, epsilon := range map[string]string{"a<script>b": "1", "b": "5"} {
		run := filepath.Join(dir, name)
		if err := os.Mkdir(run, 0o700); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{
			"config.yaml":   "algorithm: ssp-c\nepsilon: " + epsilon + "\n",
			"manifest.json": `{"version": "v1.2.3", "revision": "abc", "platform": "linux/amd64, go1", "data": "films <b>", "data_digest": "d1g", "split_digest": "s1g", "seed": 1}`,
			"summary.json": `{"test_rmse": 0.9` + epsilon + `, "test_mae": 0.7, "baselines": {"item_bias": 0.88}, "asked": {"epsilon": "` + epsilon + `"},
				"privacy": {"epsilon": ` + epsilon + `, "delta": 1e-5, "unit": "user", "relation": "zero-out", "accountant": "rdp", "sampling": "none", "noise": "skellam"}}`,
			"metrics.jsonl": `{"round":1,"rmse":1.01,"mse":1,"mae":1,"epsilon":0.5,"delta":1e-5,"alive":9,"dropped":1,"skipped":false,"bytes_up":1,"bytes_down":1,"seconds":60}` + "\n" +
				`{"round":2,"rmse":0.95,"mse":1,"mae":1,"epsilon":1,"delta":1e-5,"alive":8,"dropped":2,"skipped":false,"bytes_up":1,"bytes_down":1,"seconds":60}` + "\n",
		} {
			if err := os.WriteFile(filepath.Join(run, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

func written(t *testing.T) string {
	t.Helper()
	dir := finished(t)
	return pageOf(t, dir, loaded(t, dir))
}

func loaded(t *testing.T, dir string) study.Runs {
	t.Helper()
	runs, err := study.Load(func(err error) { t.Error(err) }, dir)
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

func pageOf(t *testing.T, dir string, runs study.Runs) string {
	t.Helper()
	var b bytes.Buffer
	claims := []page.Claim{{Source: "A paper", Text: "x < y", Verdict: "holds", Evidence: "1 < 2"}}
	if err := page.Write(&b, page.Content{Title: "A <study>", Parts: []page.Part{{ID: "all", Dirs: []string{dir}, Runs: runs, Claims: claims}}}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// appendix is the text of a page that a paper can print.
func appendix(page string) string {
	_, rest, _ := strings.Cut(page, "as text for an appendix</summary>")
	text, _, _ := strings.Cut(rest, "</details>")
	return html.UnescapeString(strings.NewReplacer("<p>", "", "</p>", "").Replace(text))
}

// The page takes nothing from elsewhere and runs nothing.
func TestPageStandsAlone(t *testing.T) {
	text := written(t)
	for _, no := range []string{"http:", "https:", "<script", "src=", "@import", "url(", "javascript:", "<link"} {
		if strings.Contains(text, no) {
			t.Errorf("the page has %q", no)
		}
	}
	for _, want := range []string{"A &lt;study&gt;", "films &lt;b&gt;", "x &lt; y"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
}

// It says what the runs came to: 0.91 at ε = 1 and 0.95 at ε = 5, as summary.json has them.
func TestPageSaysWhatRunsCameTo(t *testing.T) {
	text := written(t)
	for _, want := range []string{
		"At ε = 1, ssp-c has 0.9100, of one seed.", "At ε = 5, ssp-c has 0.9500, of one seed.", " --out again --name ", "biases, not private: 0.8800",
		"What 2 runs came to", "e^ε = 2.72,", "e^ε = 149,", ">holds</td>", "fedsim plot ", "--figure learning --out learning.svg", "fedsim run --from ",
		"(epsilon=5, delta=1e-05, unit=user, relation=zero-out",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
}

// People who do not see the pictures need a language, a name of each picture that occurs once,
// headings, scopes of table heads, and scrolling parts that the keyboard reaches.
func TestPageForEverybody(t *testing.T) {
	text := written(t)
	checkPage(t, text)
	if !strings.Contains(text, `data-head="test_rmse"`) {
		t.Error("on a phone test_rmse has no name beside its value")
	}
	pictures := regexp.MustCompile(`role="img" aria-labelledby="(t-[a-z-]+)"><title id="(t-[a-z-]+)">[^<]+</title>`).FindAllStringSubmatch(text, -1)
	if n := strings.Count(text, `role="img"`); len(pictures) != n || n < 4 {
		t.Errorf("%d of %d pictures have names, want all of at least 4", len(pictures), n)
	}
	seen := make(map[string]bool)
	for _, p := range pictures {
		if p[1] != p[2] || seen[p[1]] {
			t.Errorf("the name of a picture is %s, its title %s", p[1], p[2])
		}
		seen[p[1]] = true
	}
	for _, m := range regexp.MustCompile(`<th[ >][^>]*>`).FindAllString(text, -1) {
		if !strings.Contains(m, "scope=") {
			t.Errorf("%s has no scope", m)
		}
	}
	if a, b := strings.Count(text, `class="scroll"`), strings.Count(text, `class="scroll" tabindex="0" role="region" aria-label=`); a != b || a == 0 {
		t.Errorf("%d of %d scrolling parts are for the keyboard", b, a)
	}
}

// A section stands alone on a page, with its pictures on logarithmic axes, tables and sentences.
// 0.01 is in the middle of 0.0001 and 1 on such an axis: half way between the ends. The ends are 58
// and 628 across and, except for a tenth of room, 12 and 286 up.
func TestSection(t *testing.T) {
	f := figures.Figure{ID: "roc", Title: "Found <falsely>", X: "x", Y: "y", Log: true, LogY: true,
		Series: []figures.Series{{Name: "a", X: []float64{0.0001, 0.01, 1}, Y: []float64{0.0001, 0.01, 1}}}}
	steps := figures.Figure{ID: "steps", Title: "By budget", X: "ε", Y: "y", Ticks: []string{"1", "∞"},
		Series: []figures.Series{{Name: "b", X: []float64{0, 1}, Y: []float64{0.5, 0.7}, Low: []float64{0.4, 0.69}, High: []float64{0.55, 0.9}}}}
	var b bytes.Buffer
	err := page.Write(&b, page.Content{Title: "A page", Sections: []page.Section{{ID: "s", Title: "A <section>", Words: []string{"Some words."}, NotShown: []string{"Much."}, Repeat: []string{"fedsim attack"},
		Figures: []page.Drawn{{Figure: f}, {Figure: steps, Numbers: page.Numbers(&steps)}}, Tables: []page.Table{{Caption: "All", Head: []string{"a", "b"}, Rows: [][]string{{"1", "2"}}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{`<h2 id="s">A &lt;section&gt;</h2>`, "Found &lt;falsely&gt;", "<p>Some words.</p>", "<li>Much.</li>", "fedsim attack\n",
		`M58.0 283.2L343.0 149.0L628.0 14.8"`, // 274 units are 4 decades and 2 log10(1.1): 2.78 of room at either end
		">∞</text>", ">0.7000 (0.6900 to 0.9000)</td>", "<caption>All</caption>"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text[strings.Index(text, "<main>"):])
		}
	}
}

// The appendix names what the files of the runs say, each once.
func TestReproduce(t *testing.T) {
	dir := finished(t)
	runs := loaded(t, dir)
	got := appendix(pageOf(t, dir, runs))
	for _, want := range []string{
		"Program: fedsim v1.2.3, revision abc\n", "Machine: linux/amd64, go1\n", "Data: films <b>, digest d1g\n", "Split of seed: 1, digest s1g\n",
		"Algorithms: ssp-c\n", "ε = 1, δ = 1e-05, unit user, relation zero-out; ε = 5,", "Runs: 2, each",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
	chosen := dp.Chosen{By: dp.PrivateSearch, Candidates: 20, Law: dp.Selection{Eta: 1, Gamma: 0.25}, RunEpsilon: 5}
	runs[1].Summary.Privacy.Epsilon, runs[1].Summary.Privacy.Chosen = 7.714, chosen
	text := pageOf(t, dir, runs)
	claimed := regexp.MustCompile(`<dd>(.+) <span class="soft">(.+)</span></dd>`).FindAllStringSubmatch(html.UnescapeString(text), -1)
	if len(claimed) != 2 {
		t.Fatalf("statements are %q, want two", claimed)
	}
	for name, text := range map[string]string{"the appendix": appendix(text), "the statement": claimed[1][2], "its words": claimed[1][1]} {
		if !strings.Contains(text, chosen.String()) && !strings.Contains(text, "chosen=private") || !strings.Contains(text, "7.71") {
			t.Errorf("%s does not name the search: %q", name, text)
		}
	}
}

// pictureOf draws a figure alone on a page.
func pictureOf(t *testing.T, f figures.Figure) string {
	t.Helper()
	var b strings.Builder
	if err := page.Write(&b, page.Content{Sections: []page.Section{{ID: "s", Figures: []page.Drawn{{Figure: f}}}}}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// On a wide screen labels are drawn at 11 units, and a letter of DejaVu Sans is 0.6 of that wide on average. The names of messages
// stand in two rows: all are there, and none touches another of its row.
func TestLabelsOnAWideScreen(t *testing.T) {
	t.Parallel()
	messages := []string{"announce", "advertise", "roster", "shares", "delivery", "prepared", "proceed", "masked-input", "survivors", "unmask", "final"}
	text := pictureOf(t, figures.Figure{ID: "f", Bars: true, Ticks: messages, Series: []figures.Series{{X: make([]float64, 11), Y: make([]float64, 11)}}})
	shown := regexp.MustCompile(`class="tick[ a-z]*" x="([0-9.]+)" y="(306|319)" text-anchor="middle">([a-z-]+)<`).FindAllStringSubmatch(text, -1)
	ends := map[string]float64{}
	for _, m := range shown {
		at, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		half := 0.6 * 11 * float64(len(m[3])) / 2
		if at-half < ends[m[2]] {
			t.Errorf("the label %s touches the one before it", m[3])
		}
		ends[m[2]] = at + half
	}
	if len(shown) != len(messages) || len(ends) != 2 {
		t.Errorf("%d labels of %d in %d rows", len(shown), len(messages), len(ends))
	}
}

// On a narrow screen labels are drawn at 19 units, and a digit of Arial, DejaVu Sans condensed or Roboto is at most 0.58 of that
// wide. Labels that stay there do not touch, and at least two stay.
func TestLabelsOnANarrowScreen(t *testing.T) {
	t.Parallel()
	epsilons := []float64{0.1, 0.125, 0.15, 0.2, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 5, 10, 20}
	text := pictureOf(t, figures.Figure{ID: "f", Log: true, Series: []figures.Series{{X: epsilons, Y: epsilons}}})
	shown := regexp.MustCompile(`class="tick" x="([0-9.]+)" y="306" text-anchor="middle">([0-9.]+)<`).FindAllStringSubmatch(text, -1)
	end := 0.0
	for _, m := range shown {
		at, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		half := 0.58 * 19 * float64(len(m[2])) / 2
		if at-half < end {
			t.Errorf("the label %s touches the one before it", m[2])
		}
		end = at + half
	}
	if wide := strings.Count(text, `class="tick wide"`); len(shown) < 2 || wide == 0 {
		t.Errorf("%d labels on a narrow screen and %d more on a wide one", len(shown), wide)
	}
}
