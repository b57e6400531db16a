package presets

import "github.com/fedsim/fedsim/internal/sweep"

const (
	fmf       = "Federated matrix factorization"
	ssp       = "Sufficient statistics perturbation"
	multitask = "Multi-task"
	cmf       = "Collective matrix factorization"
	cond      = "Private learning with public feature conditioning"
)

// ranked holds the settings of rankings by the protocol of Liang et al., with a δ below one in the
// number of users of MovieLens 20M.
const ranked = " feedback=implicit split.least=5 split.target=exact delta=7e-6 baselines=quick"

// recall is the metric of rankings; higher is better.
const recall = "recall@20"

// mse is the metric of regressions.
const mse = "test_mse"

// All holds the presets, in the order of the papers.
var All = []Preset{
	{
		Name: "fmf-fig3", Source: fmf + ", Figure 3", Title: "three partitions, with and without noise",
		Grid: "algorithm=vfl-sgdmf,hfl-sgdmf,lfl-sgdmf epsilon=5,inf baselines=quick",
		Claims: []Claim{
			{Text: "Noise costs accuracy.", Lower: "epsilon=inf", Than: "epsilon=5"},
			{Text: "Organisations lose less to noise than users: VFL is better than LFL.", Lower: "algorithm=vfl-sgdmf epsilon=5", Than: "algorithm=lfl-sgdmf epsilon=5"},
		},
	},
	{
		Name: "fmf-fig4", Source: fmf + ", Figure 4", Title: "clipping gradients or embeddings, one party",
		Grid: "algorithm=vfl-sgdmf parties=1 clipping=embedding,gradient clip-norm=10 epsilon=5 unit=rating,user baselines=quick",
		Claims: []Claim{
			{Text: "Clipping embeddings is better than clipping gradients, per rating.", Lower: "clipping=embedding unit=rating", Than: "clipping=gradient unit=rating"},
			{Text: "And per user.", Lower: "clipping=embedding unit=user", Than: "clipping=gradient unit=user"},
		},
	},
	{
		Name: "fmf-fig5", Source: fmf + ", Figure 5", Title: "VFL-SGDMF with one party, DP-SGLD at the epsilon that strong composition claims, and objective perturbation",
		Grid: "algorithm=vfl-sgdmf,dp-sgld,objective-perturbation parties=1 unit=rating,user epsilon=1,5,10 baselines=quick",
		Claims: []Claim{
			{Text: "VFL-SGDMF is better than DP-SGLD, per rating.", Lower: "algorithm=vfl-sgdmf unit=rating", Than: "algorithm=dp-sgld unit=rating"},
			{Text: "And per user.", Lower: "algorithm=vfl-sgdmf unit=user", Than: "algorithm=dp-sgld unit=user"},
			{Text: "It is better than objective perturbation, per rating.", Lower: "algorithm=vfl-sgdmf unit=rating", Than: "algorithm=objective-perturbation unit=rating"},
			{Text: "And above all per user.", Lower: "algorithm=vfl-sgdmf unit=user", Than: "algorithm=objective-perturbation unit=user"},
		},
	},
	{
		Name: "fmf-fig6", Source: fmf + ", Figure 6", Title: "rounds against local steps, 18 parties",
		Grid:    "algorithm=vfl-sgdmf parties=18 partition=category,random unit=rating,user rounds=1000,100,20,1 local-steps=1,10,50,1000 epsilon=5 baselines=all",
		Options: sweep.Options{Zip: []string{"rounds,local-steps"}},
		Claims: []Claim{
			{Text: "100 rounds of 10 steps are better than 1,000 of one.", Lower: "rounds=100 local-steps=10", Than: "rounds=1000 local-steps=1"},
			{Text: "100 rounds of 10 steps are better than one of 1,000.", Lower: "rounds=100 local-steps=10", Than: "rounds=1 local-steps=1000"},
			{Text: "20 rounds of 50 steps are better than 1,000 of one.", Lower: "rounds=20 local-steps=50", Than: "rounds=1000 local-steps=1"},
			{Text: "20 rounds of 50 steps are better than one of 1,000.", Lower: "rounds=20 local-steps=50", Than: "rounds=1 local-steps=1000"},
			{Text: "Each is better than what parties reach alone, per rating.", Lower: "unit=rating", Baseline: "baselines.local_only"},
			{Text: "And per user.", Lower: "unit=user", Baseline: "baselines.local_only"},
		},
	},
	{
		Name: "fmf-fig7", Source: fmf + ", Figure 7", Title: "VFL with 2, 5 and 10 parties",
		Grid: "algorithm=vfl-sgdmf parties=2,5,10 unit=rating,user epsilon=1,5,10",
		Claims: []Claim{
			{Text: "Every cell beats what each party reaches alone.", Baseline: "baselines.local_only"},
			{Text: "More parties lose more: 2 are better than 10.", Lower: "parties=2", Than: "parties=10"},
		},
	},
	{
		Name: "fmf-fig8", Source: fmf + ", Figure 8", Title: "HFL with users pre-trained, or from a random start and trained along",
		Grid: "algorithm=hfl-sgdmf model.pretrain=yes,no parties=2,5,10,20,40 model.fine-tune=0,5 epsilon=1,5,10 baselines=quick",
		Claims: []Claim{
			{Text: "Pre-training users is better than training both, before fine-tuning.", Lower: "model.pretrain=yes model.fine-tune=0", Than: "model.pretrain=no model.fine-tune=0"},
			{Text: "And after it.", Lower: "model.pretrain=yes model.fine-tune=5", Than: "model.pretrain=no model.fine-tune=5"},
		},
	},
	{
		Name: "fmf-fig9", Source: fmf + ", Figure 9", Title: "HFL before and after fine-tuning",
		Grid: "algorithm=hfl-sgdmf parties=10,40 epsilon=1,5,10",
		Claims: []Claim{
			{Text: "Fine-tuning improves the shared embeddings.", Baseline: "shared_rmse"},
			{Text: "Cooperating beats what each party reaches alone.", Baseline: "baselines.local_only"},
		},
	},
	{
		Name: "fmf-fig10", Source: fmf + ", Figure 10", Title: "LFL under dropouts, at two tolerances",
		Grid:    "algorithm=lfl-sgdmf tolerance=0.3,0.6 dropout=0,0.2,0.4 epsilon=1,5,10 baselines=quick",
		Options: sweep.Options{Skip: []string{"tolerance=0.3 dropout=0.4"}},
		Claims: []Claim{
			{Text: "Dropouts cost accuracy.", Lower: "dropout=0", Than: "dropout=0.2"},
			{Text: "A larger tolerance costs accuracy under dropouts.", Lower: "tolerance=0.3 dropout=0.2", Than: "tolerance=0.6 dropout=0.2"},
		},
	},
	{
		Name: "fmf-fig10-ldp", Source: fmf + ", Figure 10", Title: "LFL with noise of all clients together, and with each one's own enough alone, and GD-DR",
		Grid:    "algorithm=lfl-sgdmf,gd-dr noise=split,local,response epsilon=1,5,10 baselines=quick",
		Options: sweep.Options{Skip: []string{"algorithm=gd-dr noise=split", "algorithm=gd-dr noise=local", "algorithm=lfl-sgdmf noise=response"}},
		Claims: []Claim{
			{Text: "Distributed noise is better than each client's own.", Lower: "noise=split", Than: "noise=local"},
			{Text: "Cooperating helps even with each client's own noise (the paper: it does not).", Lower: "noise=local", Baseline: "baselines.before_cooperation"},
			{Text: "LFL-SGDMF is better than GD-DR.", Lower: "algorithm=lfl-sgdmf noise=split", Than: "algorithm=gd-dr"},
			{Text: "GD-DR is better than what users have before they cooperate (the paper: it is worse).", Lower: "algorithm=gd-dr", Baseline: "baselines.before_cooperation"},
		},
	},
	{
		Name: "ssp-fig1", Source: ssp + ", Figure 1", Title: "algorithms over ε",
		Grid: "algorithm=dpals,dp-cmf,am-ssp,am-dpsgd,dp-sgd-mf,ssp-c epsilon=1,5,20 baselines=quick",
		Claims: []Claim{
			{Text: "AM-SSP is better than DP-CMF.", Lower: "algorithm=am-ssp", Than: "algorithm=dp-cmf"},
			{Text: "AM-DPSGD is better than DP-CMF.", Lower: "algorithm=am-dpsgd", Than: "algorithm=dp-cmf"},
			{Text: "And worse than AM-SSP.", Lower: "algorithm=am-ssp", Than: "algorithm=am-dpsgd"},
			{Text: "Plain DP-SGD is worse than AM-DPSGD.", Lower: "algorithm=am-dpsgd", Than: "algorithm=dp-sgd-mf"},
			{Text: "At ε = 20 it is worse than AM-SSP at 5.", Lower: "algorithm=am-ssp epsilon=5", Than: "algorithm=dp-sgd-mf epsilon=20"},
			{Text: "And than DPALS at 5.", Lower: "algorithm=dpals epsilon=5", Than: "algorithm=dp-sgd-mf epsilon=20"},
			{Text: "Features help: DP-CMF is better than DPALS.", Lower: "algorithm=dp-cmf", Than: "algorithm=dpals"},
		},
	},
	{
		Name: "ssp-fig2", Source: ssp + ", Figure 2", Title: "rankings over ε, with features and by ids alone (of the algorithms that there are)",
		Grid: "algorithm=dpals,dp-cmf,am-ssp,am-ssp-ids features=genres,year features=none epsilon=1,5,20" + ranked, Data: rankings, Sizes: liang,
		Options: sweep.Options{Skip: []string{"algorithm=dpals features=genres,year", "algorithm=dp-cmf features=none"}},
		Claims: []Claim{
			{Text: "AM-SSP is better than DP-CMF.", Lower: "algorithm=dp-cmf features=genres,year", Than: "algorithm=am-ssp features=genres,year", Metric: recall},
			{Text: "With an embedding of each item's own, too.", Lower: "algorithm=dp-cmf features=genres,year", Than: "algorithm=am-ssp-ids features=genres,year", Metric: recall},
			{Text: "Features help AM-SSP.", Lower: "algorithm=am-ssp features=none", Than: "algorithm=am-ssp features=genres,year", Metric: recall},
			{Text: "With an embedding of each item's own, too.", Lower: "algorithm=am-ssp-ids features=none", Than: "algorithm=am-ssp-ids features=genres,year", Metric: recall},
			{Text: "DP-CMF is better than DPALS.", Lower: "algorithm=dpals features=none", Than: "algorithm=dp-cmf features=genres,year", Metric: recall},
		},
	},
	{
		Name: "ssp-fig3", Source: ssp + ", Figure 3", Title: "error over the seconds of training, by statistics and by gradients",
		Grid: "algorithm=am-ssp,am-dpsgd epsilon=20 baselines=quick",
		Claims: []Claim{
			{Text: "AM-SSP trains in less time than AM-DPSGD.", Lower: "algorithm=am-ssp", Than: "algorithm=am-dpsgd", Metric: "seconds.train"},
			{Text: "In a hundredth of it.", Lower: "algorithm=am-ssp", Than: "algorithm=am-dpsgd", Metric: "seconds.train", Times: 100},
			{Text: "And ends better.", Lower: "algorithm=am-ssp", Than: "algorithm=am-dpsgd"},
		},
	},
	{
		Name: "ssp-fig4", Source: ssp + ", Figure 4", Title: "statistics taken several times from one encoder",
		Grid: "algorithm=am-ssp rounds=1 encoder.steps=16 statistics.resample=1,4,16 epsilon=1,5,20 baselines=quick",
		Claims: []Claim{
			{Text: "Taking them once is better than 16 times.", Lower: "statistics.resample=1", Than: "statistics.resample=16"},
		},
	},
	{
		Name: "multitask-fig1", Source: multitask + ", Figure 1", Title: "statistics and gradients, with samples of ratings and adaptive weights, over ε",
		Grid: "algorithm=dpals,ada-dpals,dpsgd,ada-dpsgd statistics.budgeting=uniform,tail,weights epsilon=1,5,20 baselines=quick",
		Options: sweep.Options{Skip: []string{"algorithm=dpals statistics.budgeting=weights", "algorithm=ada-dpals statistics.budgeting=uniform", "algorithm=ada-dpals statistics.budgeting=tail",
			"algorithm=dpsgd statistics.budgeting=weights", "algorithm=ada-dpsgd statistics.budgeting=uniform", "algorithm=ada-dpsgd statistics.budgeting=tail"}},
		Claims: []Claim{
			{Text: "AdaDPALS is better than DPALS with a uniform sample.", Lower: "algorithm=ada-dpals statistics.budgeting=weights", Than: "algorithm=dpals statistics.budgeting=uniform"},
			{Text: "And than with a sample of the tail.", Lower: "algorithm=ada-dpals statistics.budgeting=weights", Than: "algorithm=dpals statistics.budgeting=tail"},
			{Text: "AdaDPSGD is better than DPSGD with a uniform sample.", Lower: "algorithm=ada-dpsgd statistics.budgeting=weights", Than: "algorithm=dpsgd statistics.budgeting=uniform"},
			{Text: "And than with a sample of the tail.", Lower: "algorithm=ada-dpsgd statistics.budgeting=weights", Than: "algorithm=dpsgd statistics.budgeting=tail"},
			{Text: "AdaDPALS is better than AdaDPSGD.", Lower: "algorithm=ada-dpals", Than: "algorithm=ada-dpsgd"},
		},
	},
	{
		Name: "multitask-fig2", Source: multitask + ", Figure 2", Title: "rankings over ε, with samples of ratings and adaptive weights (of the algorithms that there are)",
		Grid: "algorithm=dpals,ada-dpals statistics.budgeting=uniform,tail,weights epsilon=1,5,20" + ranked, Data: rankings, Sizes: liang,
		Options: sweep.Options{Skip: []string{"algorithm=dpals statistics.budgeting=weights", "algorithm=ada-dpals statistics.budgeting=uniform", "algorithm=ada-dpals statistics.budgeting=tail"}},
		Claims: []Claim{
			{Text: "Adaptive weights are better than a uniform sample.", Lower: "algorithm=dpals statistics.budgeting=uniform", Than: "algorithm=ada-dpals statistics.budgeting=weights", Metric: recall},
			{Text: "And than a sample of the tail.", Lower: "algorithm=dpals statistics.budgeting=tail", Than: "algorithm=ada-dpals statistics.budgeting=weights", Metric: recall},
			{Text: "At ε = 1, too.", Lower: "algorithm=dpals statistics.budgeting=uniform epsilon=1", Than: "algorithm=ada-dpals statistics.budgeting=weights epsilon=1", Metric: recall},
		},
	},
	{
		Name: "multitask-fig3", Source: multitask + ", Figure 3", Title: "the exponent of item counts in task weights, of statistics and of gradients",
		Grid: "algorithm=ada-dpals,ada-dpsgd statistics.exponent=0,0.25,0.5,1 epsilon=1,5,20 baselines=quick",
		Claims: []Claim{
			{Text: "An exponent of 1/4 is better than none, with statistics.", Lower: "algorithm=ada-dpals statistics.exponent=0.25", Than: "algorithm=ada-dpals statistics.exponent=0"},
			{Text: "And with gradients.", Lower: "algorithm=ada-dpsgd statistics.exponent=0.25", Than: "algorithm=ada-dpsgd statistics.exponent=0"},
			{Text: "1 is clearly worse than 1/4, with statistics.", Lower: "algorithm=ada-dpals statistics.exponent=0.25", Than: "algorithm=ada-dpals statistics.exponent=1"},
			{Text: "And with gradients.", Lower: "algorithm=ada-dpsgd statistics.exponent=0.25", Than: "algorithm=ada-dpsgd statistics.exponent=1"},
		},
	},
	{
		Name: "multitask-fig4", Source: multitask + ", Figure 4", Title: "adaptive weights by popularity",
		Grid: "algorithm=dpals,ada-dpals epsilon=1,5 baselines=quick",
		Claims: []Claim{
			{Text: "Adaptive weights help the most popular fifth of the items.", Lower: "algorithm=ada-dpals", Than: "algorithm=dpals", Metric: "test_slices.0.rmse"},
			{Text: "And the least popular fifth.", Lower: "algorithm=ada-dpals", Than: "algorithm=dpals", Metric: "test_slices.4.rmse"},
		},
	},
	{
		Name: "cmf-fig1", Source: cmf + ", Figure 1", Title: "public features of items over ε",
		Grid:    "algorithm=dpals,dp-cmf features=genres,year epsilon=1,2,5,10,20",
		Options: sweep.Options{When: []string{"algorithm=dpals: features=none"}},
		Claims: []Claim{
			{Text: "DP-CMF is better than DPALS.", Lower: "algorithm=dp-cmf features=genres,year", Than: "algorithm=dpals features=none"},
			{Text: "At ε = 1, too.", Lower: "algorithm=dp-cmf features=genres,year epsilon=1", Than: "algorithm=dpals features=none epsilon=1"},
		},
	},
	{
		Name: "cmf-fig3", Source: cmf + ", Figure 3", Title: "categories of features one by one",
		Grid: "algorithm=dp-cmf features=genres features=year features=genres,year epsilon=1,5,20 baselines=quick",
		Claims: []Claim{
			{Text: "Both categories together are better than genres alone.", Lower: "features=genres,year", Than: "features=genres"},
			{Text: "And than decades alone.", Lower: "features=genres,year", Than: "features=year"},
		},
	},
	{
		Name: "cmf-fig5", Source: cmf + ", Figure 5", Title: "how many users' ratings are public, beside genres and decades",
		Grid:  "algorithm=dp-cmf features=genres,year features=genres,year,rater public-binary=no,yes epsilon=5 baselines=quick",
		Sizes: public, Options: sweep.Options{Skip: []string{"features=genres,year public-binary=yes"}},
		Claims: []Claim{
			{Text: "Ratings of 100 public users help.", Lower: "features=genres,year,rater public-binary=no public-users=100", Than: "features=genres,year public-binary=no public-users=100"},
			{Text: "Those of 300 do.", Lower: "features=genres,year,rater public-binary=no public-users=300", Than: "features=genres,year public-binary=no public-users=300"},
			{Text: "Stars are better than who liked what.", Lower: "features=genres,year,rater public-binary=no", Than: "features=genres,year,rater public-binary=yes"},
		},
	},
	{
		Name: "cond-table", Source: cond + ", linear regressions", Title: "conditioned gradients over ε, spectra and directions of labels",
		Grid: "algorithm=dp-sgd,cond-dp,switch-cond-dp,rr-on-bins,rr-dp-sgd epsilon=0.25,0.5,1,2,4,inf delta=1e-6 baselines=quick", Data: regressions,
		Claims: []Claim{
			{Text: "Conditioning gains where labels lie in the bottom direction.", Lower: "algorithm=cond-dp data=synthetic:regression-1-bottom", Than: "algorithm=dp-sgd data=synthetic:regression-1-bottom", Metric: mse},
			{Text: "And where they lie in all alike.", Lower: "algorithm=cond-dp data=synthetic:regression-1-uniform", Than: "algorithm=dp-sgd data=synthetic:regression-1-uniform", Metric: mse},
			{Text: "It is better in the top direction, too, where Lemma 4.13 sees no gain.", Lower: "algorithm=cond-dp data=synthetic:regression-1-top", Than: "algorithm=dp-sgd data=synthetic:regression-1-top", Metric: mse},
			{Text: "To end conditioning half way is better than not to, in the top direction.", Lower: "algorithm=switch-cond-dp data=synthetic:regression-1-top", Than: "algorithm=cond-dp data=synthetic:regression-1-top", Metric: mse},
			{Text: "And in the bottom direction.", Lower: "algorithm=switch-cond-dp data=synthetic:regression-1-bottom", Than: "algorithm=cond-dp data=synthetic:regression-1-bottom", Metric: mse},
			{Text: "Cond-DP is better than RR-on-Bins at ε = 0.25.", Lower: "algorithm=cond-dp epsilon=0.25", Than: "algorithm=rr-on-bins epsilon=0.25", Metric: mse},
			{Text: "And at ε = 1.", Lower: "algorithm=cond-dp epsilon=1", Than: "algorithm=rr-on-bins epsilon=1", Metric: mse},
			{Text: "A start from randomised labels makes DP-SGD better at ε = 1.", Lower: "algorithm=rr-dp-sgd epsilon=1", Than: "algorithm=dp-sgd epsilon=1", Metric: mse},
		},
	},
	{
		Name: "cond-mlp", Source: cond + ", a perceptron over embeddings", Title: "conditioning throughout, ended on the way, and none",
		Grid: "algorithm=mlp-dp-sgd,mlp-cond-dp,mlp-switch-cond-dp epsilon=1,4 delta=1e-6 baselines=quick", Data: map[string]string{Small: "synthetic:fields", Full: "synthetic:fields-200000"},
		Claims: []Claim{
			{Text: "To end conditioning on the way is better than DP-SGD.", Lower: "algorithm=mlp-switch-cond-dp", Than: "algorithm=mlp-dp-sgd", Metric: mse},
			{Text: "Conditioning throughout hinders: to end it is better.", Lower: "algorithm=mlp-switch-cond-dp", Than: "algorithm=mlp-cond-dp", Metric: mse},
		},
	},
	{
		Name: "cond-ratings", Source: cond, Title: "labels of ratings, beside users as the unit (ours)",
		Grid: "algorithm=dp-sgd,cond-dp,rr-on-bins,ssp-c,dp-cmf epsilon=1,5,20 baselines=quick",
		Claims: []Claim{
			{Text: "Conditioning gains with ratings, too.", Lower: "algorithm=cond-dp", Than: "algorithm=dp-sgd"},
			{Text: "At ε = 1 a bias model that protects a label is better than factors that protect a user.", Lower: "algorithm=cond-dp epsilon=1", Than: "algorithm=ssp-c epsilon=1"},
			{Text: "At ε = 20, too.", Lower: "algorithm=cond-dp epsilon=20", Than: "algorithm=ssp-c epsilon=20"},
		},
	},
}
