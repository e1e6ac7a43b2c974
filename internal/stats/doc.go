// Package stats estimates how much two series of measurements differ and how
// sure that is. In go windows of counts, latency sums and latency
// histograms, grouped by iteration; out come values, ratios with 95 %
// intervals and verdicts. It is pure: no clock, no files, no global state,
// and equal inputs with equal seeds give equal results.
//
// # The estimate
//
// Throughput is commands divided by seconds over all windows, mean latency
// the latency sum divided by commands, a percentile that of the merged
// histogram, CPU per command the servers' CPU time divided by commands: long
// windows and long iterations weigh more, as they should.
// Differences are ratios, and all of the arithmetic of uncertainty is done on
// logarithms, so that "A is 5 % faster than B" and "B is that much slower
// than A" are the same statement.
//
// # The interval
//
// Two sources of variation are kept apart, as a hierarchical bootstrap does:
// windows inside an iteration, and iterations.
//
// Windows inside an iteration are correlated (checkpoints, cache fill,
// background work), so they are resampled in blocks: a circular moving-block
// bootstrap (Künsch 1989; Politis and Romano 1992). The block length is the
// one that minimises the mean squared error of the variance when the series
// is an AR(1) process with the lag-1 autocorrelation r that was found
// (Politis and White 2004, with the correction of Patton, Politis and White
// 2009, their G and D written out for AR(1)):
//
//	b = ceil((6 r² / (1-r²)²)^(1/3) n^(1/3)), from 1 to ceil(min(3 √n, n/3))
//
// where r is corrected for its bias in short series, r + (1+4r)/n (Kendall
// 1954; Marriott and Pope 1954). Block bootstraps are too narrow on short
// series, because each resampled block repeats the sample's own mean
// (Hesterberg 2015, section 3.2). Two answers: the variance is never taken
// to be less than that of the mean of an AR(1) process of the same variance
// and r; and the interval uses Student's t with n(1-r)/(1+r)-1 degrees of
// freedom, the effective number of independent windows (Bayley and
// Hammersley 1946), instead of the normal distribution.
//
// Iterations are the independent repetitions. With k > 1 of them the
// variance of the whole is (between + within)/k, the variance components
// being those of a one-way random-effects model (Kalibera and Jones 2013,
// "Rigorous benchmarking in reasonable time"): within from the block
// bootstrap, between from the iterations' own estimates, never negative.
// Resampling two or three values is known to give intervals that are far too
// narrow, so at this level the exact small-sample result takes the place of
// resampling: Student's t with k-1 degrees of freedom on each side.
//
// Placements, sets of machines made anew, are one level more, treated as
// iterations are: with k > 1 of them the variance of the whole is
// (between + within)/k, within being the mean of the placements' own
// variances, between that of their estimates, with k-1 degrees of freedom on
// each side. Two placements have one: an interval that holds, and is wide.
// Where machines differ, iterations on one set of them tell nothing of that,
// however many there are.
//
// With one iteration only the first source is seen. Such an interval is
// marked WithinRun: it is blind to what differs from run to run and from
// machine to machine, and identical systems can differ by more than it says
// (Abedi and Brecht 2017).
//
// The interval of the ratio target/baseline, the two being independent, is
//
//	exp(ln(target/baseline) ± t · √(V_target + V_baseline))
//
// with the degrees of freedom of a sum of two estimated variances
// (Satterthwaite 1946; Welch 1947):
//
//	(V_target + V_baseline)² / (V_target²/df_target + V_baseline²/df_baseline)
//
// They are those of the noisier side when it alone matters, and both added
// when the sides vary alike. Sides of unequal numbers of iterations take
// instead the mean of t of either's own degrees of freedom, weighted by the
// variances (Cochran and Cox 1950), which errs on the wide side where Welch's
// errs on the narrow one. The true difference that would have been detected
// with probability Power is exp((t + t(Power))·√…) - 1, t being two-sided and
// t(Power) one-sided.
//
// # Steady state
//
// A series of a cell's minutes kept its level unless a straight line or a
// single jump fits it better than noise would let it. The statistics are the
// slope of the least-squares line and the largest difference of means before
// and after a point, at least a tenth of the series from either end (the
// supremum test for a shift in mean: Hawkins 1977; Andrews 1993), both in
// units of the standard deviation of what is left beside the better of the
// two. Neither has a usable distribution when neighbouring minutes are
// correlated, so both are compared with those of simulated AR(1) series of
// the same length: a Monte Carlo test (Dwass 1957; Dufour 2006). The smaller
// of the two p-values counts, against the smaller ones of the simulated
// series (Westfall and Young 1993), which keeps the level of the whole. The
// smaller the level, the more series are simulated.
//
// A drift is found with probability Power when its line exceeds the critical
// slope by what the slope of noise alone stays below with probability Power.
//
// The autocorrelation of the noise cannot be told from a drift in a short
// series, so it is estimated from the residuals of all series of a group
// together, freed of its bias by simulating what an AR(1) series of each
// autocorrelation would have shown (indirect inference: Gouriéroux, Monfort
// and Renault 1993), and raised by one standard error.
package stats
