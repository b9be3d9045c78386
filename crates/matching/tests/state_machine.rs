//! The matcher against a naive model: two lists in order of age, searched from the front (MPI's
//! rule).
#![cfg(feature = "alloc")]

use limic_matching::{
    Envelope, Full, HeapMatcher, PostedId, Selector, Source, Token, UnexpectedId,
};
use proptest::prelude::*;
use proptest::test_runner::Config;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};

/// What happens to a matcher. `nth` picks among the entries that were ever queued, also those long
/// gone.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A receive: take an unexpected message or be queued.
    Receive(Selector),
    /// A receive that is queued without looking (allowed, though no caller does it).
    Post(Selector),
    /// A message: be taken by a posted receive or be queued.
    Arrive(Envelope),
    /// A message that is queued without looking.
    Push(Envelope),
    Probe(Selector),
    /// Matched probe: take, never queue.
    Claim(Selector),
    Cancel {
        nth: usize,
    },
    Remove {
        nth: usize,
    },
    Reserve {
        posted: usize,
        unexpected: usize,
    },
    Drain(Source),
}

/// The model: what is queued, in order of age, and the tokens ever given out.
#[derive(Clone, Debug, Default)]
struct Model {
    posted: Vec<(Selector, Token)>,
    unexpected: Vec<(Envelope, Token)>,
    tokens: Token,
}

impl Model {
    fn token(&mut self) -> Token {
        self.tokens += 1;
        self.tokens
    }

    fn take_posted(&mut self, envelope: &Envelope) -> Option<Token> {
        let place = self
            .posted
            .iter()
            .position(|(selector, _)| selector.fits(envelope))?;
        Some(self.posted.remove(place).1)
    }

    fn find_unexpected(&self, selector: &Selector) -> Option<usize> {
        self.unexpected
            .iter()
            .position(|(envelope, _)| selector.fits(envelope))
    }

    fn take_unexpected(&mut self, selector: &Selector) -> Option<(Envelope, Token)> {
        self.find_unexpected(selector)
            .map(|place| self.unexpected.remove(place))
    }

    /// What the caller of a matcher does.
    fn step(&mut self, step: Step) {
        match step {
            Step::Receive(selector) => {
                if self.take_unexpected(&selector).is_none() {
                    self.step(Step::Post(selector));
                }
            }
            Step::Post(selector) => {
                let token = self.token();
                self.posted.push((selector, token));
            }
            Step::Arrive(envelope) => {
                if self.take_posted(&envelope).is_none() {
                    self.step(Step::Push(envelope));
                }
            }
            Step::Push(envelope) => {
                let token = self.token();
                self.unexpected.push((envelope, token));
            }
            Step::Claim(selector) => {
                self.take_unexpected(&selector);
            }
            Step::Cancel { nth } => self.posted.retain(|(_, token)| *token as usize != nth),
            Step::Remove { nth } => self.unexpected.retain(|(_, token)| *token as usize != nth),
            Step::Drain(source) => self
                .posted
                .retain(|(selector, _)| selector.source != source),
            Step::Probe(_) | Step::Reserve { .. } => {}
        }
    }
}

/// Masks to choose from: a handful, so that all are indexed, or more than there are classes.
const HANDFUL: [u64; 5] = [!0, 0, 0b01, 0b10, !(1 << 60)];

fn mask(masks: u32) -> BoxedStrategy<u64> {
    if masks <= 5 {
        proptest::sample::select(&HANDFUL[..]).boxed()
    } else {
        // Distinct masks that all look at one or two of the low bits.
        (0..masks)
            .prop_map(|i| u64::from(i) << 8 | [0b01, 0b10, 0b11][i as usize % 3])
            .boxed()
    }
}

fn selector(masks: u32) -> impl Strategy<Value = Selector> {
    let source = prop_oneof![1 => Just(Source::Any), 2 => (0..3_u32).prop_map(Source::Is)];
    (source, 0..4_u64, mask(masks)).prop_map(|(source, tag, mask)| Selector { source, tag, mask })
}

fn envelope() -> impl Strategy<Value = Envelope> {
    (0..3_u32, 0..4_u64).prop_map(|(source, tag)| Envelope { source, tag })
}

fn step(masks: u32, tokens: Token) -> BoxedStrategy<Step> {
    let nth = 0..tokens as usize + 2;
    prop_oneof![
        6 => selector(masks).prop_map(Step::Receive),
        4 => selector(masks).prop_map(Step::Post),
        6 => envelope().prop_map(Step::Arrive),
        4 => envelope().prop_map(Step::Push),
        3 => selector(masks).prop_map(Step::Probe),
        3 => selector(masks).prop_map(Step::Claim),
        3 => nth.clone().prop_map(|nth| Step::Cancel { nth }),
        3 => nth.prop_map(|nth| Step::Remove { nth }),
        1 => (0..40_usize, 0..40_usize)
            .prop_map(|(posted, unexpected)| Step::Reserve { posted, unexpected }),
        1 => prop_oneof![Just(Source::Any), (0..3_u32).prop_map(Source::Is)].prop_map(Step::Drain),
    ]
    .boxed()
}

/// The model with so many masks to choose from.
#[derive(Clone, Debug)]
struct Reference<const MASKS: u32>;

impl<const MASKS: u32> ReferenceStateMachine for Reference<MASKS> {
    type State = Model;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Model> {
        Just(Model::default()).boxed()
    }

    fn transitions(model: &Model) -> BoxedStrategy<Step> {
        step(MASKS, model.tokens)
    }

    fn apply(mut model: Model, step: &Step) -> Model {
        model.step(*step);
        model
    }
}

/// The matcher, a model of its own to compare each answer with, and every id ever given out by
/// token.
struct Checked {
    matcher: HeapMatcher,
    model: Model,
    posted: Vec<(Token, PostedId)>,
    unexpected: Vec<(Token, UnexpectedId)>,
}

impl Checked {
    fn post(&mut self, selector: &Selector) {
        let token = self.model.token();
        self.model.posted.push((*selector, token));
        let before = self.matcher.posted_len();
        let id = self.matcher.post(selector, token).or_else(|full| {
            assert_eq!(full, Full::Posted { capacity: before });
            assert_eq!(self.matcher.posted_len(), before);
            self.matcher.reserve(1, 0)?;
            self.matcher.post(selector, token)
        });
        self.posted.push((token, id.expect("room after reserve")));
    }

    fn push(&mut self, envelope: &Envelope) {
        let token = self.model.token();
        self.model.unexpected.push((*envelope, token));
        let before = self.matcher.unexpected_len();
        let id = self
            .matcher
            .push_unexpected(envelope, token)
            .or_else(|full| {
                assert_eq!(full, Full::Unexpected { capacity: before });
                assert_eq!(self.matcher.unexpected_len(), before);
                self.matcher.reserve(0, 1)?;
                self.matcher.push_unexpected(envelope, token)
            });
        self.unexpected
            .push((token, id.expect("room after reserve")));
    }

    fn take_unexpected(&mut self, selector: &Selector) -> bool {
        let taken = self.matcher.take_unexpected(selector);
        assert_eq!(taken, self.model.take_unexpected(selector));
        taken.is_some()
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Receive(selector) => {
                if !self.take_unexpected(&selector) {
                    self.post(&selector);
                }
            }
            Step::Post(selector) => self.post(&selector),
            Step::Arrive(envelope) => {
                let taken = self.matcher.take_posted(&envelope);
                assert_eq!(taken, self.model.take_posted(&envelope));
                if taken.is_none() {
                    self.push(&envelope);
                }
            }
            Step::Push(envelope) => self.push(&envelope),
            Step::Probe(selector) => {
                let found = self.model.find_unexpected(&selector);
                let expected = found.and_then(|place| self.model.unexpected.get(place));
                assert_eq!(self.matcher.probe(&selector).as_ref(), expected);
            }
            Step::Claim(selector) => {
                self.take_unexpected(&selector);
            }
            Step::Cancel { nth } => {
                let of_token = |(token, _): &&(Token, PostedId)| *token as usize == nth;
                if let Some(&(token, id)) = self.posted.iter().find(of_token) {
                    let here = self.model.posted.iter().any(|(_, queued)| *queued == token);
                    assert_eq!(self.matcher.cancel_posted(id), here.then_some(token));
                }
                self.model.step(step);
            }
            Step::Remove { nth } => {
                let of_token = |(token, _): &&(Token, UnexpectedId)| *token as usize == nth;
                if let Some(&(token, id)) = self.unexpected.iter().find(of_token) {
                    let here = self
                        .model
                        .unexpected
                        .iter()
                        .any(|(_, queued)| *queued == token);
                    assert_eq!(self.matcher.remove_unexpected(id), here.then_some(token));
                }
                self.model.step(step);
            }
            Step::Reserve { posted, unexpected } => {
                self.matcher.reserve(posted, unexpected).expect("memory");
            }
            Step::Drain(source) => {
                let mut drained = Vec::new();
                self.matcher
                    .drain_posted(source, |_, token| drained.push(token));
                let of_source = self
                    .model
                    .posted
                    .iter()
                    .filter(|(one, _)| one.source == source);
                assert_eq!(
                    drained,
                    of_source.map(|(_, token)| *token).collect::<Vec<_>>()
                );
                self.model.step(step);
            }
        }
        assert_eq!(self.matcher.posted_len(), self.model.posted.len());
        assert_eq!(self.matcher.unexpected_len(), self.model.unexpected.len());
    }
}

struct Machine<const MASKS: u32>;

impl<const MASKS: u32> StateMachineTest for Machine<MASKS> {
    type SystemUnderTest = Checked;
    type Reference = Reference<MASKS>;

    fn init_test(model: &Model) -> Checked {
        let matcher = HeapMatcher::new();
        Checked {
            matcher,
            model: model.clone(),
            posted: Vec::new(),
            unexpected: Vec::new(),
        }
    }

    fn apply(mut checked: Checked, _: &Model, step: Step) -> Checked {
        checked.step(step);
        checked
    }

    /// What is left comes out in the order of the model.
    fn teardown(mut checked: Checked, model: Model) {
        let mut left = Vec::new();
        checked
            .matcher
            .drain_posted_if(|_| true, |_, token| left.push(token));
        assert_eq!(
            left,
            model
                .posted
                .iter()
                .map(|(_, token)| *token)
                .collect::<Vec<_>>()
        );
        let all = Selector {
            source: Source::Any,
            tag: 0,
            mask: 0,
        };
        for expected in model.unexpected {
            assert_eq!(checked.matcher.take_unexpected(&all), Some(expected));
        }
        assert_eq!(checked.matcher.take_unexpected(&all), None);
    }
}

fn config(cases: u32) -> Config {
    // Miri has no files, and is some hundred times slower.
    let cases = if cfg!(miri) { 1 } else { cases };
    Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    }
}

const STEPS: usize = if cfg!(miri) { 12 } else { 300 };
const LONG: usize = if cfg!(miri) { 12 } else { 900 };

prop_state_machine! {
    #![proptest_config(config(256))]

    #[test]
    fn a_handful_of_masks(sequential 1..STEPS => Machine<5>);
}

prop_state_machine! {
    #![proptest_config(config(256))]

    #[test]
    fn twenty_masks(sequential 1..STEPS => Machine<20>);
}

prop_state_machine! {
    #![proptest_config(config(128))]

    #[test]
    fn more_masks_than_classes(sequential 1..LONG => Machine<200>);
}
