//! Exchanges: declare, delete, bind one to another.

use super::arguments::Arguments;
use super::fault::Fault;
use super::queue::inequivalent_flag;
use super::{Request, address};
use thalweg_amqp::methods::exchange::{
    Bind, BindOk, Declare, DeclareOk, Delete, DeleteOk, Unbind, UnbindOk,
};
use thalweg_amqp::{Method, ReplyCode, Table};
use thalweg_kernel::{BindSpec, BindTo, ExchangeKind, ExchangeSpec, Refusal, exchange_address};

impl Request<'_, '_> {
    pub(super) fn declare_exchange(&mut self, declare: &Declare<'_>) -> Result<(), Fault> {
        let name = &*address::in_one_line(declare.exchange);
        let declare = &Declare {
            exchange: name,
            ..*declare
        };
        let address = exchange_address(self.tenant(), name);
        if declare.passive {
            not_default(name)?;
            let known = self.cx.kernel.inspect_exchange(self.session, &address);
            known.map_err(|refusal| self.about_exchange(name, "configure").fault(refusal))?;
        } else {
            self.declare_new_exchange(declare, &address)?;
        }
        if !declare.no_wait {
            self.answer(&Method::ExchangeDeclareOk(DeclareOk));
        }
        Ok(())
    }

    fn declare_new_exchange(&mut self, declare: &Declare<'_>, address: &str) -> Result<(), Fault> {
        let name = declare.exchange;
        not_default(name)?;
        let Some(kind) = kind_of(declare.kind) else {
            let what = format!("unknown exchange type '{}'", declare.kind);
            return Err(Fault::precondition(what));
        };
        let thing = self.about_exchange(name, "configure").thing();
        let alternate = Arguments {
            table: declare.arguments,
            thing: &thing,
        }
        .alternate(self.tenant())?;
        let spec = ExchangeSpec {
            address,
            kind,
            durable: declare.durable,
            auto_delete: declare.auto_delete,
            internal: declare.internal,
            alternate: alternate.as_deref(),
        };
        self.cx.kernel.declare_exchange(self.session, &spec, self.cx.links).map_err(|refusal| {
            let current = self.cx.kernel.inspect_exchange(self.session, address);
            match (refusal, current) {
                (Refusal::Differs("kind" | "type"), Ok(current)) => Fault::precondition(format!(
                    "inequivalent arg 'type' for {thing}: received '{}' but current is '{}'",
                    name_of(kind),
                    name_of(current)
                )),
                (Refusal::Differs("durable"), _) => inequivalent_flag("durable", &thing, declare.durable),
                (Refusal::Differs("auto_delete"), _) => inequivalent_flag("auto_delete", &thing, declare.auto_delete),
                (Refusal::Differs("internal"), _) => inequivalent_flag("internal", &thing, declare.internal),
                (refusal, _) => self.about_exchange(name, "configure").fault(refusal),
            }
        })
    }

    pub(super) fn delete_exchange(&mut self, delete: &Delete<'_>) -> Result<(), Fault> {
        let name = &*address::in_one_line(delete.exchange);
        not_default(name)?;
        let address = exchange_address(self.tenant(), name);
        match self.cx.kernel.delete_exchange(
            self.session,
            &address,
            delete.if_unused,
            self.cx.links,
        ) {
            // What is not there needs no deleting.
            Ok(()) | Err(Refusal::NoExchange) => {}
            Err(Refusal::Reserved) => {
                let what = format!(
                    "deletion of system {} not allowed",
                    self.about_exchange(name, "configure").thing()
                );
                return Err(Fault::new(ReplyCode::AccessRefused, what));
            }
            Err(refusal) => return Err(self.about_exchange(name, "configure").fault(refusal)),
        }
        if !delete.no_wait {
            self.answer(&Method::ExchangeDeleteOk(DeleteOk));
        }
        Ok(())
    }

    pub(super) fn bind_exchange(&mut self, bind: &Bind<'_>) -> Result<(), Fault> {
        self.relate(
            bind.source,
            bind.destination,
            bind.routing_key,
            bind.arguments,
            true,
        )?;
        if !bind.no_wait {
            self.answer(&Method::ExchangeBindOk(BindOk));
        }
        Ok(())
    }

    pub(super) fn unbind_exchange(&mut self, unbind: &Unbind<'_>) -> Result<(), Fault> {
        self.relate(
            unbind.source,
            unbind.destination,
            unbind.routing_key,
            unbind.arguments,
            false,
        )?;
        if !unbind.no_wait {
            self.answer(&Method::ExchangeUnbindOk(UnbindOk));
        }
        Ok(())
    }

    /// Binds two exchanges or ends that.
    fn relate(
        &mut self,
        from: &str,
        to: &str,
        key: &str,
        table: Table<'_>,
        bound: bool,
    ) -> Result<(), Fault> {
        let (from, to) = (&*address::in_one_line(from), &*address::in_one_line(to));
        not_default(from)?;
        not_default(to)?;
        let exchange = exchange_address(self.tenant(), from);
        let target = exchange_address(self.tenant(), to);
        let arguments = Arguments { table, thing: "" };
        arguments.check_rule()?;
        if bound {
            arguments.filter()?;
        }
        let arguments = arguments.neutral();
        let to_exchange = BindTo::Exchange(&target);
        let spec = BindSpec {
            exchange: &exchange,
            to: to_exchange,
            key,
            arguments: &arguments,
        };
        self.set_binding(&spec, bound).map_err(|refusal| {
            let is_source_there = self
                .cx
                .kernel
                .inspect_exchange(self.session, &exchange)
                .is_ok();
            self.about_exchange(if is_source_there { to } else { from }, "write")
                .fault(refusal)
        })
    }

    pub(super) fn set_binding(&mut self, spec: &BindSpec<'_>, bound: bool) -> Result<(), Refusal> {
        if bound {
            self.cx.kernel.bind(self.session, spec, self.cx.links)
        } else {
            match self.cx.kernel.unbind(self.session, spec, self.cx.links) {
                // Nothing is bound to what is not there.
                Err(Refusal::NoQueue | Refusal::NoExchange) => Ok(()),
                unbound => unbound,
            }
        }
    }
}

/// The default exchange is every queue's by its name, and nothing else.
pub(super) fn not_default(exchange: &str) -> Result<(), Fault> {
    if exchange.is_empty() {
        return Err(Fault::new(
            ReplyCode::AccessRefused,
            "operation not permitted on the default exchange",
        ));
    }
    Ok(())
}

fn kind_of(name: &str) -> Option<ExchangeKind> {
    Some(match name {
        "direct" => ExchangeKind::Direct,
        "fanout" => ExchangeKind::Fanout,
        "topic" => ExchangeKind::Topic,
        "headers" => ExchangeKind::Headers,
        _ => return None,
    })
}

fn name_of(kind: ExchangeKind) -> &'static str {
    match kind {
        ExchangeKind::Direct => "direct",
        ExchangeKind::Fanout => "fanout",
        ExchangeKind::Topic => "topic",
        ExchangeKind::Headers => "headers",
    }
}

/// Whether a peer may not make something of that name.
pub(super) fn is_reserved(name: &str) -> bool {
    name.starts_with(address::RESERVED)
}
