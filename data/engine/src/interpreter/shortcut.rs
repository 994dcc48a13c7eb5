//! Tasks that take a shortcut: they are written down as if they had passed every step of it.

use weever_block::MAX_WAYS;
use weever_packet::Mask;

use super::execute::Walk;
use crate::schedule::{Board, Program, WayPlan, span};

impl Walk<'_> {
    /// Tries shortcut number `shortcut` of the program for the tasks of `input` that have a packet.
    #[inline]
    pub(super) fn shortcut(&mut self, shortcut: u32, input: Mask) {
        let program = self.program;
        let plan = &program.shortcuts[shortcut as usize];
        let mut left = input & self.batch.occupied;
        let Some(judge) = self.shortcuts.get_mut(plan.number as usize).filter(|_| left != 0) else {
            return;
        };
        let plans = &program.ways[span(&plan.ways)];
        let mut ways = [0; MAX_WAYS];
        judge.run(self.burst, left, &mut ways[..plans.len()]);
        for (plan, tasks) in plans.iter().zip(ways) {
            let tasks = tasks & left;
            if let Some(plan) = plan.as_ref().filter(|_| tasks != 0) {
                left &= !tasks;
                pass(program, plan, tasks, &mut self.frame.board);
            }
        }
    }
}

/// A node that the tasks passed neither has anything more to do for them, nor is it due for them:
/// only where the way ends.
#[inline]
fn pass(program: &Program, way: &WayPlan, tasks: Mask, board: &mut Board) {
    for slot in &program.way_slots[span(&way.slots)] {
        board.slots[*slot as usize] |= tasks;
    }
    for set in &program.way_steps[span(&way.passed)] {
        board.passed[set.word as usize] |= set.steps;
    }
    for set in &program.way_steps[span(&way.ends)] {
        board.due[set.word as usize] |= set.steps;
    }
}
