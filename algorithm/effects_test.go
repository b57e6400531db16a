package algorithm_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
)

// effects lists settings with the algorithms on which each has an effect; with any other algorithm
// a warning must name the setting. Groups of algorithms are:
//   - device: clients are users;
//   - vertical: parties have items (sgld: dp-sgld alone);
//   - horizontal: parties have users;
//   - central and als: all ratings are in one place (objective: objective-perturbation alone; responses: gd-dr alone);
//   - ranker: all ratings are in one place, and items are ranked;
//   - statistics: users sum statistics (bias: item biases alone);
//   - pairs: users sum pairs of items;
//   - items, encoder and joint: users sum gradients;
//   - regression: examples have labels (labels: randomised labels alone; perceptron: embeddings under a perceptron).
var effects = []struct {
	setting string // of a value other than the default
	forms   string
}{
	{"rounds=7", "device vertical sgld horizontal statistics items encoder joint responses regression rr-dp-sgd perceptron"},
	{"dropout=0.15", "device vertical sgld horizontal statistics items encoder joint bias regression private-ease"},
	{"dropout=0.3 dropout-at=share", "device vertical sgld horizontal statistics items encoder joint bias regression private-ease"},
	{"leave=0.01", "device vertical sgld horizontal statistics items encoder joint bias regression private-ease"},
	{"away=0.01", "device vertical sgld horizontal statistics items encoder joint bias regression private-ease"},
	{"away=0.01 away-rounds=2", "device vertical sgld horizontal statistics items encoder joint bias regression private-ease"},
	{"tolerance=0.4", "device vertical sgld horizontal statistics items encoder joint bias regression private-ease"},
	{"colluders=0.1", "device vertical sgld horizontal statistics items encoder joint bias regression private-ease"},
	{"sit-out=0.1", "device vertical sgld horizontal statistics items encoder joint bias regression private-ease"},
	{"cohort.size=100", "device"},
	{"start-from=there", "device vertical horizontal dpals ada-dpals dp-cmf ssp-c"},
	{"statistics.start-decay=0.5", ""}, // of a start alone
	{"cohort.size=100 cohort.over=1.5", "device"},
	{"baselines=quick", "lfl-sgdmf vfl-sgdmf sgld hfl-sgdmf hfl-synsgd statistics items encoder joint bias regression private-ease"},
	{"contribution=all-ratings clipping=both clip-norm=2", "device vertical horizontal"},
	{"noise-draw=client", "lfl-sgdmf statistics items encoder joint bias regression private-ease"},
	{"contribution=all-ratings", "device"},
	{"model.learning-rate=0.01", "device central responses"},
	{"model.epochs=3", "central"},
	{"als.passes=3", "als"},
	{"ease.ridge=9", "ease"},
	{"knn.neighbours=9", "item-knn"},
	{"knn.shrinkage=9", "item-knn"},
	{"ials.passes=3", "ials"},
	{"ials.unobserved=0.5", "ials fcf"},
	{"ials.ridge=0.1", "ials fcf"},
	{"fcf.passes=3", "fcf"},
	{"fcf.rate=0.1", "fcf"},
	{"bpr.passes=3", "bpr-mf"},
	{"bpr.rate=0.1", "bpr-mf"},
	{"bpr.ridge=0.1", "bpr-mf"},
	{"model.fit-steps=20", "device horizontal central objective responses"},
	{"model.fit-ridge=2", "device horizontal central objective responses"},
	{"parties=3", "vertical sgld horizontal regression"},
	{"local-steps=1", "vertical sgld horizontal"},
	{"sampling-rate=0.1", "vertical sgld horizontal"},
	{"clipping=both", "vertical horizontal"},
	{"model.user-rate=0.01", "vertical sgld horizontal"},
	{"model.item-rate=0.01", "vertical sgld horizontal"},
	{"model.density=0.02", "vertical sgld horizontal"},
	{"model.prior=2", "sgld"},
	{"model.item-ridge=200", "objective"},
	{"model.dimensions=3", "responses"},
	{"parties=3 partition=category", "vertical sgld"},
	{"item-steps=5", "vertical sgld"},
	{"train=both", "horizontal"},
	{"model.pretrain=no", "horizontal"},
	{"model.fine-tune=3", "horizontal"},
	{"unit=user clip-ratings=4", "vertical sgld horizontal objective"},
	{"rank=3", "als ials fcf bpr-mf device vertical sgld horizontal central statistics items encoder joint objective responses perceptron"},
	{"rating-max=5", "als ranker device vertical sgld horizontal central statistics items encoder joint bias objective responses regression labels perceptron private-ease"},
	{"split.validation=0.1", "als ranker device vertical sgld horizontal central statistics items encoder joint bias objective responses regression labels perceptron private-ease"},
	{"split.fold=1/5", "als ranker device vertical sgld horizontal central statistics items encoder joint bias objective responses regression labels perceptron private-ease"},
	{"split.seed=2", "als ranker device vertical sgld horizontal central statistics items encoder joint bias objective responses regression labels perceptron private-ease"},
	{"seed=2", "als ranker device vertical sgld horizontal central statistics items encoder joint bias objective responses regression labels perceptron private-ease"},
	{"workers=2", "als ranker device vertical sgld horizontal central statistics items encoder joint bias objective responses regression labels perceptron private-ease"},
	{"eval.top-k=7", "als ranker device vertical sgld horizontal central statistics items encoder joint bias objective responses regression labels perceptron private-ease"},
	{"eval.buckets=4", "als ranker device vertical sgld horizontal central statistics items encoder joint bias objective responses regression labels perceptron private-ease"},
	{"eval.relevant=3", "als device vertical sgld horizontal central statistics items encoder joint bias objective responses regression labels perceptron"},
	{"eval.users=7", "als device vertical sgld horizontal central statistics items encoder joint bias objective responses regression labels perceptron"},
	{"eval.drift=no", "als device vertical sgld horizontal central statistics items encoder joint bias objective responses"},
	{"eval.negatives=9", "als ranker device vertical sgld horizontal central statistics items encoder joint bias objective responses regression labels perceptron private-ease"},
	{"deployment.stage-timeout-s=30", ""}, // with any in a deployment, in a simulation with none
	{"deployment.tail-s=1", ""},
	{"deployment.gather-s=0", ""},
	{"features=genres", "regression labels dp-cmf ssp-c ssp-i am-ssp am-ssp-ids ssp-convex am-dpsgd dp-sgd-mf private-ease"},
	{"statistics.gramian=one", "statistics"},
	{"statistics.budgeting=weights", "statistics bias items encoder joint"},
	{"statistics.exponent=0.5", "ada-dpals dp-cmf ssp-c ssp-i am-ssp am-ssp-ids ssp-convex private-item-bias ada-dpsgd am-dpsgd dp-sgd-mf"},
	{"statistics.normalise=global", "ada-dpals dp-cmf ssp-c ssp-i am-ssp am-ssp-ids ssp-convex private-item-bias ada-dpsgd am-dpsgd dp-sgd-mf"},
	{"statistics.headroom=2", ""}, // of one scale for all alone
	{"statistics.count-margin=2", "ada-dpals am-ssp am-ssp-ids ada-dpsgd am-dpsgd dp-sgd-mf"},
	{"statistics.per-user=7", "dpals dpsgd"},
	{"statistics.count-cap=7", "ada-dpals am-ssp am-ssp-ids ada-dpsgd am-dpsgd dp-sgd-mf"},
	{"statistics.shares.counts=0.02", "ada-dpals am-ssp am-ssp-ids ada-dpsgd am-dpsgd dp-sgd-mf"},
	{"statistics.mean-cap=9", "statistics bias items encoder joint"},
	{"statistics.shares.mean=0.02", "statistics bias items encoder joint"},
	{"statistics.bias-first=yes", "statistics items encoder joint"},
	{"statistics.clip-user=2", "statistics"},
	{"statistics.clip-rating=2", "dpals ada-dpals dp-cmf ssp-c ssp-i am-ssp am-ssp-ids"},
	{"statistics.clip-bias=1", "dp-cmf ssp-c ssp-i ssp-convex private-item-bias"},
	{"statistics.norm-bias=1", "dp-cmf ssp-c ssp-i ssp-convex private-item-bias"},
	{"statistics.bias-rounds=2", "dp-cmf ssp-c ssp-i ssp-convex private-item-bias"},
	{"statistics.bias-rounds=2 statistics.user-popularity-weight=0.1 statistics.bias-tilt=1", "ssp-c"},
	{"statistics.prior-strength=9", "dp-cmf ssp-c ssp-i ssp-convex private-item-bias"},
	{"statistics.learn=popularity", ""}, // of implicit feedback alone
	{"statistics.norm-items=1", "statistics items"},
	{"statistics.growth=2", "statistics items encoder joint"},
	{"statistics.priors=fixed", "dp-cmf ssp-i ssp-convex private-item-bias"},
	{"statistics.decay=0.2", "ssp-c"},
	{"statistics.bias-ridge=3", ""}, // of priors that are not learned alone
	{"statistics.order-weight=2", "dp-cmf ssp-c ssp-i ssp-convex private-item-bias"},
	{"statistics.user-feature-weight=0.2", "dp-cmf ssp-c ssp-i am-ssp am-ssp-ids ssp-convex am-dpsgd dp-sgd-mf"},
	{"statistics.user-bias-ridge=3", "dp-cmf ssp-c ssp-i ssp-convex private-item-bias"},
	{"statistics.user-ridge=3", "statistics items encoder joint"},
	{"statistics.item-ridge=3", "dpals ada-dpals dp-cmf ssp-i am-ssp am-ssp-ids ssp-convex items"},
	{"statistics.item-prior=3", "dpals ada-dpals dp-cmf ssp-i am-ssp am-ssp-ids ssp-convex items"},
	{"statistics.unobserved=0.2", ""},           // of implicit feedback alone
	{"split.positive=3", "ranker private-ease"}, // likewise
	{"split.time=3", ""},                          // of split.by time alone
	{"split.least=5", "ranker private-ease"},      // of implicit feedback alone
	{"split.target=exact", "ranker private-ease"}, // likewise
	{"split.users=seen", "ranker private-ease"},   // likewise
	{"statistics.top-items=0.5", "statistics"},
	{"statistics.choose-by=counts", ""}, // of some items alone
	{"statistics.resample=1", "statistics items encoder"},
	{"statistics.sampling-rate=0.5", "statistics items encoder joint"},
	{"statistics.start-spread=0.2", "dpals ada-dpals dp-cmf ssp-c items"},
	{"statistics.loss=huber", "ssp-convex"},
	{"statistics.loss-width=2", "ssp-convex"},
	{"statistics.shares.bias=0.3", "dp-cmf ssp-c ssp-i ssp-convex"},
	{"statistics.shares.weight-counts=0.2", "statistics bias items"},
	{"statistics.shares.gramian=0.2", "statistics"},
	{"encoder.optimiser=adam", "ssp-c ssp-i am-ssp am-ssp-ids ssp-convex encoder joint"},
	{"encoder.steps=50", "ssp-i am-ssp am-ssp-ids ssp-convex"},
	{"encoder.dense=yes", "ssp-i am-ssp am-ssp-ids ssp-convex encoder joint"},
	{"encoder.ids=no", "ssp-i am-ssp am-ssp-ids ssp-convex encoder joint"},
	{"encoder.rate=0.1", "ssp-i am-ssp am-ssp-ids ssp-convex encoder joint"},
	{"encoder.start-norm=2", "ssp-i am-ssp am-ssp-ids ssp-convex encoder joint"},
	{"regression.step=0.5", "regression rr-dp-sgd"},
	{"regression.clip=2", "regression rr-dp-sgd perceptron"},
	{"regression.floor=0.01", "cond-dp switch-cond-dp mlp-cond-dp mlp-switch-cond-dp"},
	{"regression.switch=0.25", "switch-cond-dp mlp-switch-cond-dp"},
	{"regression.label-share=0.3", "rr-dp-sgd"},
	{"regression.rate=0.1", "perceptron"},
	{"regression.batch=100", "perceptron"},
	{"regression.hidden=8-4", "perceptron"},
	{"regression.item-ridge=3", "regression labels"},
	{"regression.item-ids=no", "regression labels"},
	{"regression.user-bias=yes", "regression labels"},
	{"regression.user-ridge=3", "regression labels"},
	{"gradient.clip=2", "items encoder joint"},
	{"gradient.radius=2", "items"},
	{"gradient.rate=0.5", "items"},
	{"pairs.items=9", "private-ease"},
	{"pairs.max-upload=1", "private-ease"},
	{"pairs.norm=9", "private-ease"},
	{"pairs.share-counts=0.4", "private-ease"},
	{"pairs.ridge=9", "private-ease"},
	{"cmf.sweeps=2", "dp-cmf"},
	{"cmf.feature-weight=2", "dp-cmf"},
}

var formOf = map[string]string{
	"lfl-sgdmf": "device", "fmf-lfl": "device", "vfl-sgdmf": "vertical", "dp-sgld": "sgld", "fmf-vfl": "vertical",
	"hfl-sgdmf": "horizontal", "hfl-synsgd": "horizontal", "fmf-hfl": "horizontal", "sgd-mf": "central", "als": "als", "ease": "ranker", "item-knn": "ranker", "ials": "ranker", "fcf": "ranker", "bpr-mf": "ranker", "private-ease": "pairs", "objective-perturbation": "objective", "gd-dr": "responses",
	"dpals": "statistics", "ada-dpals": "statistics", "dp-cmf": "statistics", "ssp-c": "statistics", "ssp-i": "statistics", "am-ssp": "statistics", "am-ssp-ids": "statistics",
	"ssp-convex": "statistics", "dpsgd": "items", "ada-dpsgd": "items", "am-dpsgd": "encoder", "dp-sgd-mf": "joint", "private-item-bias": "bias", "dp-sgd": "regression", "cond-dp": "regression", "switch-cond-dp": "regression", "rr-on-bins": "labels", "rr-dp-sgd": "labels",
	"mlp-dp-sgd": "perceptron", "mlp-cond-dp": "perceptron", "mlp-switch-cond-dp": "perceptron",
}

// keyOf is the key of the last of the settings.
func keyOf(settings string) string {
	return settings[strings.LastIndexByte(settings, ' ')+1 : strings.LastIndexByte(settings, '=')]
}

// settingsFor returns the settings of a line, without a unit that the algorithm refuses, and without turns that it does not take.
func settingsFor(a, line string) string {
	if formOf[a] != "device" {
		line = strings.TrimPrefix(line, "cohort.size=100 ")
	}
	if slices.Contains(algorithm.Find(a).About().Units, dp.Example) {
		return strings.TrimPrefix(line, "unit=user ")
	}
	return line
}

// matters looks a key up in effects; what is not there matters always.
func matters(key string, a string) bool {
	for _, tt := range effects {
		if keyOf(tt.setting) == key {
			forms := strings.Fields(tt.forms)
			return slices.Contains(forms, formOf[a]) || slices.Contains(forms, a)
		}
	}
	return true
}

// ofLast leaves out warnings that settings before the last have no effect.
func ofLast(warnings []string, settings string) []string {
	var list []string
	for _, w := range warnings {
		if key, _, is := strings.Cut(w, " has no effect"); !is || key == keyOf(settings) || !strings.Contains(settings, key+"=") {
			list = append(list, w)
		}
	}
	return list
}

func TestSettingsWithoutEffectAreCalledOut(t *testing.T) {
	for _, a := range algorithm.Names() {
		for _, tt := range effects {
			c, err := config.Resolve(set(fmt.Sprintf("algorithm=%s %s", a, settingsFor(a, tt.setting))))
			if err != nil {
				t.Errorf("%s %s: %v", a, tt.setting, err)
				continue
			}
			var want []string
			switch key := keyOf(tt.setting); {
			case strings.HasPrefix(key, "deployment."):
				want = []string{key + " has no effect in a simulation"}
			case !matters(key, a):
				want = []string{fmt.Sprintf("%s has no effect with %s", key, a)}
			}
			if diff := cmp.Diff(want, ofLast(algorithm.Warnings(c), tt.setting)); diff != "" {
				t.Errorf("%s %s: warnings (-want +got):\n%s", a, tt.setting, diff)
			}
		}
	}
}

// The defaults of no algorithm warn.
func TestDefaultsDoNotWarn(t *testing.T) {
	for _, a := range algorithm.Names() {
		c, err := config.Resolve(set("algorithm=" + a))
		if err != nil {
			t.Fatal(err)
		}
		if w := algorithm.Warnings(c); len(w) > 0 {
			t.Errorf("%s: %q", a, w)
		}
	}
}
