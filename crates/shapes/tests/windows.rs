//! Checks views of windows against an enumeration of the elements they show, for numbers and for symbols.
#![expect(clippy::expect_used, reason = "a test whose sizes overflow has failed")]

mod common;

use dynamlir_shapes::{Bindings, Dim, Predicate, Relation, Scope, ShapeError, Symbol, Window};
use proptest::prelude::*;

/// Memory positions in row-major order of the indices.
fn elements(window: &Window<i64>) -> Vec<i64> {
    let mut all = vec![window.offset];
    for (size, stride) in window.dims() {
        all = all.iter().flat_map(|&at| (0..size).map(move |i| at + i * stride)).collect();
    }
    all
}

fn window(sizes: &[i64], strides: &[i64], offset: i64) -> Window<i64> {
    Window { sizes: sizes.to_vec(), strides: strides.to_vec(), offset }
}

fn dim(text: &str) -> Dim {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn dims(texts: &[&str]) -> Vec<Dim> {
    texts.iter().map(|text| dim(text)).collect()
}

/// A scope with s0 and s1, sizes of at least 2.
fn sizes() -> Scope {
    let mut scope = Scope::new();
    scope.fresh_size(6);
    scope.fresh_size(10);
    scope
}

#[test]
fn a_transposed_window_has_no_flat_view() {
    let transposed = Window::<i64>::row_major(&[2, 3]).transpose(0, 1).expect("two dimensions");
    assert_eq!(transposed.reshape(&[6]), None);
    assert_eq!(transposed.reshape(&[3, 1, 2]), Some(window(&[3, 1, 2], &[1, 1, 3], 0)));
}

#[test]
fn slices_are_pythons() {
    let whole = Window::<i64>::row_major(&[4, 10]);
    let slice =
        |start: i64, end: i64, step| whole.slice_in(1, Some(&start), Some(&end), step, &()).map(|w| (w.offset, w.sizes[1], w.strides[1]));
    assert_eq!(slice(2, 9, 3), Ok((2, 3, 3)));
    assert_eq!(slice(-3, i64::MAX, 1), Ok((7, 3, 1)));
    assert_eq!(slice(8, 2, 1), Ok((8, 0, 1)));
    assert_eq!(slice(0, 10, i64::MAX), Ok((0, 1, i64::MAX)));
    assert!(slice(0, 1, 0).is_err());
}

#[test]
fn views_that_do_not_exist_are_errors() {
    let whole = Window::<i64>::row_major(&[2, 3]);
    let refused = |view: Result<Window<i64>, ShapeError>| matches!(view, Err(ShapeError::NoSuchView(_)));
    assert!(refused(whole.permute(&[0, 0])) && refused(whole.permute(&[0])) && refused(whole.permute(&[0, 2])));
    assert!(refused(whole.select_in(0, &2, &())) && refused(whole.select_in(2, &0, &())));
    assert!(refused(whole.expand_in(&[4, 3], &())) && refused(whole.expand_in(&[3], &())) && refused(whole.expand_in(&[-1, 2, 3], &())));
    assert!(refused(whole.split_in(1, &[2, 2], &())) && refused(whole.unsqueeze(3)));
    assert!(whole.reshape_in(&[5], &()).is_err() && whole.merge_in(1, 2, &()).is_err());
}

#[test]
fn symbols_are_carried_through_views() {
    let scope = sizes();
    let whole = Window::row_major_in(&dims(&["s0", "s1", "64"]), &scope).expect("small");
    assert_eq!(whole.strides, dims(&["s1*64", "64", "1"]));
    assert_eq!(whole.is_contiguous_in(&scope), Ok(true));
    // Attention heads: split, permuted, one taken out.
    let heads = whole.split_in(2, &dims(&["4", "16"]), &scope).and_then(|w| w.permute(&[0, 2, 1, 3])).expect("64 = 4·16");
    assert_eq!(heads.strides, dims(&["s1*64", "16", "64", "1"]));
    assert_eq!(heads.is_contiguous_in(&scope), Ok(false));
    assert_eq!(heads.is_dense_in(&scope), Ok(true));
    assert_eq!(heads.may_repeat_in(&scope), Ok(false));
    assert_eq!(heads.select_in(1, &Dim::from(-1), &scope).expect("4 heads").offset, Dim::from(48));
    // The rows of all sequences become one dimension, with either spelling of its size.
    let flat = whole.reshape_in(&dims(&["s1*s0", "64"]), &scope).expect("as many").expect("contiguous");
    assert_eq!(flat.strides, dims(&["64", "1"]));
    assert_eq!(heads.reshape_in(&dims(&["s0*4", "s1", "16"]), &scope), Ok(None));
    assert_eq!(whole.extent_in(&scope), Ok(Some((Dim::from(0), dim("s0*s1*64 - 1")))));
}

#[test]
fn slices_of_symbols_are_clamped_as_far_as_not_known() {
    let mut scope = sizes();
    let whole = Window::row_major_in(&dims(&["s0"]), &scope).expect("small");
    let first = |scope: &Scope, n: i64| whole.slice_in(0, None, Some(&Dim::from(n)), 1, scope).expect("small").sizes[0].clone();
    assert_eq!(first(&scope, 2), Dim::from(2));
    assert_eq!(first(&scope, 8), dim("min(s0, 8)"));
    assert_eq!(first(&scope, -1), dim("s0 - 1"));
    let enough = Predicate::new(dim("s0"), Relation::Ge, 8);
    scope.assume(&enough).expect("possible");
    assert_eq!(first(&scope, 8), Dim::from(8));
    let odd = whole.slice_in(0, Some(&Dim::from(1)), None, 2, &scope).expect("small");
    assert_eq!((odd.sizes[0].clone(), odd.strides[0].clone()), (dim("s0 floordiv 2"), Dim::from(2)));
}

#[test]
fn what_depends_is_asked_back() {
    let mut scope = sizes();
    let whole = Window::row_major_in(&dims(&["s0"]), &scope).expect("small");
    let expanded = |scope: &Scope| whole.expand_in(&dims(&["3", "s1"]), scope);
    let Err(ShapeError::Undecided(question)) = expanded(&scope) else { panic!("s0 = s1 is not known") };
    assert_eq!(question.to_string(), "s0 == s1");
    scope.assume(&question).expect("possible");
    assert_eq!(expanded(&scope).expect("known now").strides, dims(&["0", "1"]));
}

/// A window with some views applied, so that strides of all kinds occur; every element is at position 0 or later.
fn windows() -> impl Strategy<Value = Window<i64>> {
    let sizes = prop::collection::vec(prop_oneof![1 => Just(0_i64), 2 => Just(1_i64), 6 => 2_i64..=5], 0..4);
    let views = prop::collection::vec((0_u8..6, 0_usize..4, 0_i64..5, 1_i64..3), 0..4);
    (sizes, views).prop_map(|(sizes, views)| {
        let whole = Window::row_major(&sizes);
        views.into_iter().fold(whole, |window, (view, dim, at, step)| {
            let dim = dim % window.rank().max(1);
            let next = match view {
                0 => window.transpose(dim, window.rank().saturating_sub(1)),
                1 => window.slice_in(dim, Some(&at), None, step, &()),
                2 => window.unsqueeze(dim),
                3 => window.expand_in(&[&[step + 1], &window.sizes[..]].concat(), &()),
                4 => window.reverse_in(&[dim], &()),
                _ => window.select_in(dim, &at, &()),
            };
            next.unwrap_or(window)
        })
    })
}

/// The result of taking these indices of the elements in row-major order.
fn reordered(window: &Window<i64>, index_of: impl Fn(&[i64]) -> Option<Vec<i64>>, sizes: &[i64]) -> Vec<i64> {
    let mut indices = vec![vec![]];
    for &size in sizes {
        indices = indices.iter().flat_map(|index: &Vec<i64>| (0..size).map(move |i| [&index[..], &[i]].concat())).collect();
    }
    indices.iter().filter_map(|index| index_of(index)).map(|index| window.position(&index).expect("small")).collect()
}

proptest! {
    #![proptest_config(common::config(1000))]

    #[test]
    fn views_show_the_elements_they_should(window in windows(), dim in 0_usize..4, start in -7_i64..8, end in -7_i64..8, step in 1_i64..4) {
        if window.rank() == 0 {
            return Ok(());
        }
        let (dim, size) = (dim % window.rank(), window.sizes[dim % window.rank()]);
        // Python's slice.indices
        let clamp = |at: i64| if at < 0 { (at + size).max(0) } else { at.min(size) };
        let slice = window.slice_in(dim, Some(&start), Some(&end), step, &()).expect("small");
        let taken: Vec<i64> = (clamp(start)..clamp(end)).step_by(step as usize).collect();
        let at = |index: &[i64]| { let mut index = index.to_vec(); index[dim] = *taken.get(index[dim] as usize)?; Some(index) };
        prop_assert_eq!(slice.sizes[dim] as usize, taken.len());
        prop_assert_eq!(elements(&slice), reordered(&window, at, &slice.sizes));

        let reversed = window.reverse_in(&[dim], &()).expect("small");
        let back = |index: &[i64]| { let mut index = index.to_vec(); index[dim] = size - 1 - index[dim]; Some(index) };
        prop_assert_eq!(elements(&reversed), reordered(&window, back, &window.sizes));

        let swapped = window.transpose(0, dim).expect("two dimensions");
        let swap = |index: &[i64]| { let mut index = index.to_vec(); index.swap(0, dim); Some(index) };
        prop_assert_eq!(elements(&swapped), reordered(&window, swap, &swapped.sizes));

        if let Ok(row) = window.select_in(dim, &start, &()) {
            let at = |index: &[i64]| { let mut index = index.to_vec(); index.insert(dim, if start < 0 { start + size } else { start }); Some(index) };
            prop_assert_eq!(elements(&row), reordered(&window, at, &row.sizes));
        }
        prop_assert_eq!(elements(&window.squeeze()), elements(&window));
        prop_assert_eq!(window.squeeze_in(&()), Ok(window.squeeze()));
        prop_assert_eq!(elements(&window.unsqueeze(dim).expect("in range")), elements(&window));

        let wide: Vec<i64> = window.sizes.iter().map(|&size| if size == 1 { 3 } else { size }).collect();
        let broadcast = window.broadcast_in(&wide, &(0..wide.len()).collect::<Vec<_>>(), &()).expect("unit dimensions repeat");
        let once = |index: &[i64]| Some(index.iter().zip(&window.sizes).map(|(&i, &size)| if size == 1 { 0 } else { i }).collect());
        prop_assert_eq!(elements(&broadcast), reordered(&window, once, &wide));
        prop_assert_eq!(elements(&window.expand_in(&wide, &()).expect("unit dimensions repeat")), elements(&broadcast));
    }

    #[test]
    fn questions_are_answered_as_the_elements_do(window in windows()) {
        let all = elements(&window);
        let (first, last) = (all.iter().min().copied(), all.iter().max().copied());
        prop_assert_eq!(window.numel(), all.len() as i64);
        prop_assert_eq!(window.extent_in(&()), Ok(first.zip(last)));
        prop_assert_eq!(window.end(), last.map_or(window.offset, |last| last + 1));
        let mut sorted = all.clone();
        sorted.sort_unstable();
        let repeats = sorted.windows(2).any(|two| two[0] == two[1]);
        prop_assert!(window.may_repeat() || !repeats);
        let in_order = all.windows(2).all(|two| two[1] == two[0] + 1);
        prop_assert_eq!(window.is_row_major(), in_order);
        let dense = !repeats && sorted.windows(2).all(|two| two[1] == two[0] + 1);
        // Only windows with forward strides can belong to a tensor.
        if !all.is_empty() && window.dims().all(|(size, stride)| size == 1 || stride >= 0) {
            prop_assert_eq!(window.is_dense(), dense);
            prop_assert_eq!(window.memory_order().is_some(), dense);
        }
        prop_assert_eq!(elements(&window.canonical()).len(), all.len());
        prop_assert!(all.is_empty() || elements(&window.canonical()) == all);
    }

    #[test]
    fn reshapes_exist_where_strides_can_say_them(window in windows(), cuts in prop::collection::vec(1_i64..5, 0..4), units in any::<bool>()) {
        // Splits the number of elements into factors.
        let mut left = window.numel();
        let mut sizes: Vec<i64> = cuts.into_iter().filter(|&cut| left % cut == 0 && left > 0 && { left /= cut; true }).collect();
        sizes.push(left);
        if units { sizes.insert(0, 1); }
        let reshaped = window.reshape_in(&sizes, &()).expect("as many elements");
        let all = elements(&window);
        if let Some(reshaped) = &reshaped {
            prop_assert_eq!(elements(reshaped), all);
        } else {
            // Checks that the strides that the new dimensions would need do not give all elements.
            let mut wanted = vec![0; sizes.len()];
            let mut inner = 1;
            for i in (0..sizes.len()).rev() {
                if sizes[i] > 1 {
                    wanted[i] = all[inner as usize] - all[0];
                }
                inner *= sizes[i];
            }
            prop_assert_ne!(elements(&Window { sizes: sizes.clone(), strides: wanted, offset: window.offset }), all);
        }
        if !window.is_empty() {
            let flat = window.merge_in(0, window.rank(), &()).expect("all");
            prop_assert_eq!(flat.map(|flat| elements(&flat)), window.reshape(&[window.numel()]).map(|flat| elements(&flat)));
        }
    }

    #[test]
    fn windows_within_windows_show_the_same_elements(root in windows(), other in windows(), shift in 0_i64..3) {
        let other = Window { offset: other.offset + shift, ..other };
        let forwards = |w: &Window<i64>| w.strides.iter().all(|&stride| stride >= 0);
        if !forwards(&root) || root.may_repeat() || root.is_empty() || other.is_empty() {
            return Ok(());
        }
        if let Some(at) = other.within(&root) {
            let of_root = elements(&root);
            let through: Vec<_> = elements(&at).iter().map(|&i| of_root[i as usize]).collect();
            prop_assert_eq!(through, elements(&other));
        }
    }

    /// A view of symbols, evaluated at values of the symbols, equals the view of numbers.
    #[test]
    fn symbols_do_as_their_values(rows in 2_i64..9, columns in 2_i64..9, views in prop::collection::vec((0_u8..7, 0_usize..4, -3_i64..9, 1_i64..4), 1..5)) {
        let scope = sizes();
        let values: Bindings = [(Symbol(0), rows), (Symbol(1), columns)].into_iter().collect();
        let mut symbolic = Window::row_major_in(&dims(&["s0", "s1", "4"]), &scope).expect("small");
        let mut numeric = Window::row_major(&[rows, columns, 4]);
        for (view, dim, at, step) in views {
            let dim = dim % numeric.rank();
            let next = match view {
                0 => symbolic.transpose(0, dim),
                1 => symbolic.slice_in(dim, Some(&Dim::from(at)), None, step, &scope),
                2 => symbolic.slice_in(dim, None, Some(&Dim::from(at)), step, &scope),
                3 => symbolic.unsqueeze(dim),
                4 => symbolic.reverse_in(&[dim], &scope),
                5 => symbolic.merge_in(0, 2, &scope).map(|merged| merged.unwrap_or(symbolic.clone())),
                _ => symbolic.squeeze_in(&scope),
            };
            // Undecided queries are not tested here.
            let Ok(next) = next else { continue };
            numeric = match view {
                0 => numeric.transpose(0, dim),
                1 => numeric.slice_in(dim, Some(&at), None, step, &()),
                2 => numeric.slice_in(dim, None, Some(&at), step, &()),
                3 => numeric.unsqueeze(dim),
                4 => numeric.reverse_in(&[dim], &()),
                5 => numeric.merge_in(0, 2, &()).map(|merged| merged.unwrap_or(numeric.clone())),
                _ => numeric.squeeze_in(&()),
            }.expect("as the symbolic one");
            symbolic = next;
            let at = symbolic.at(&values).expect("small");
            // Strides of dimensions that are never stepped over may differ.
            prop_assert_eq!((&at.sizes, at.canonical()), (&numeric.sizes, numeric.canonical()), "{:?}", symbolic);
            for (answer, expected) in [
                (symbolic.is_contiguous_in(&scope), numeric.is_row_major()),
                (symbolic.may_repeat_in(&scope), numeric.may_repeat()),
                (symbolic.is_empty_in(&scope), numeric.is_empty()),
            ] {
                prop_assert!(answer.clone().is_err() || answer == Ok(expected), "{:?} of {:?}", answer, symbolic);
            }
        }
    }
}
